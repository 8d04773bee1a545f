"""Networks from elsewhere: tables from their operators to ours."""
