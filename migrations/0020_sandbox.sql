-- What holds a process, as its shim set it: JSON. NULL: it has no box.
ALTER TABLE processes ADD COLUMN sandbox TEXT;
