-- Where fencing tokens come from: each is larger than all before it. A sequence makes nobody wait.
CREATE SEQUENCE {claim_tokens} AS bigint CACHE 1;
