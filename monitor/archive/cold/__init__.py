"""Raw bursts of old days, as Parquet files in a folder or an S3 bucket, no longer in the database.

In: `settings.COLD_BURSTS`, the folder's path or `s3://bucket/folder`, empty for none, and the days after which bursts
move there. `days` writes them and `ColdFile` lists them; `reading` gives them back to the queries of a single path.
"""
