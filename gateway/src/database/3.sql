-- The data directory's own id, for the labels of what is made for it elsewhere.
CREATE TABLE directory (id TEXT NOT NULL) STRICT;
INSERT INTO directory VALUES (lower(hex(randomblob(8))));
