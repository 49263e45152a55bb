"""Routes in the evidence of incidents: where on the path the trouble is."""
