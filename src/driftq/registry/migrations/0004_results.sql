-- What a finished effect gave, as JSON, for whoever gets the same event again.
ALTER TABLE {claims} ADD COLUMN result {text};
