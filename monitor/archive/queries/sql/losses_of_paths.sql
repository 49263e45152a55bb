-- The packets of each summary of the period, as rows of planned_figures.sql.
SELECT
    path_id, NULL, NULL, NULL, bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent, received, NULL
FROM ({pieces}) AS piece
