-- When the newest stored result began, whatever its outcome; null where there is none.
SELECT greatest({newest_of_tables})
