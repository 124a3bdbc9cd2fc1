-- Where fencing tokens come from: each is larger than all before it.
CREATE TABLE {claim_tokens} (
    last_token {bigint} NOT NULL
) {strict};

INSERT INTO {claim_tokens} (last_token) VALUES (0);
