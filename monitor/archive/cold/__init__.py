"""Raw bursts of old days in Parquet files, in a folder or S3 bucket (`settings.COLD_BURSTS`)."""
