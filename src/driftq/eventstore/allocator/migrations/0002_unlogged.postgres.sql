-- Who holds a row has its aggregate to itself, and its number can be read from the stored events. So a row need not
-- outlive a crash of the server: PostgreSQL empties the table then, and numbers go on after the stored events.
ALTER TABLE {sequence.aggregate_sequences} SET UNLOGGED;
