-- The last number of each aggregate, and how many the latest reservation took.
CREATE TABLE {aggregate_sequences} (
    handler_prefix {text} NOT NULL,
    aggregate_type {text} NOT NULL,
    aggregate_id {text} NOT NULL,
    last_sequence {bigint} NOT NULL,
    reserved {bigint} NOT NULL,
    PRIMARY KEY (handler_prefix, aggregate_type, aggregate_id)
) {clustered};
