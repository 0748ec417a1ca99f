-- What held a check, as its shim set it: JSON. NULL: it had no box, or was not run.
ALTER TABLE receipts ADD COLUMN sandbox TEXT;
