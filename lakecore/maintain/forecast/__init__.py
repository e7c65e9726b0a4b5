"""What a job will take and what it may meet: `plan` decides from values, `look` reads them."""
