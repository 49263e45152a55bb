-- When the newest stored result began, whatever its outcome; null where there is none.
SELECT greatest(
    (SELECT max(measured_at) FROM burst),
    (SELECT max(measured_at) FROM throughput_test),
    (SELECT max(measured_at) FROM disk_to_disk_test),
    (SELECT max(measured_at) FROM capacity_result)
)
