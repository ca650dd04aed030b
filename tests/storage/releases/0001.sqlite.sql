BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE artifacts (
	seq INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	blob_seq INTEGER NOT NULL, 
	session TEXT, 
	tool_name TEXT, 
	kind TEXT NOT NULL, 
	url TEXT, 
	created_at BIGINT NOT NULL, 
	read_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	ttl BIGINT, 
	idle_ttl BIGINT, 
	pinned BOOLEAN NOT NULL, 
	engine INTEGER NOT NULL, 
	said TEXT NOT NULL, 
	labels TEXT, 
	measure TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	CONSTRAINT pk_artifacts PRIMARY KEY (seq), 
	CONSTRAINT fk_artifacts_blob_seq FOREIGN KEY(blob_seq) REFERENCES blobs (seq)
);
INSERT INTO "artifacts" VALUES(1,'acme',844646290626490585,X'3585EC25E30B111D22D18B79EC4917175D778C9547DD07B64D4BEDA6A89F4C54',1,'s',NULL,'text',NULL,1709294400000000,1709294400000000,1709298000000000,3600,NULL,0,1,'{"tool_call_id":"1","session":"s","title":"Über"}','["a","b"]','{"size":8,"lines":2,"chars":8,"tokens":{"count":2,"exact":true,"encoding":"o200k_base"},"sha256":"w/nIwoOisfLxiW8noBy+PN3Aydk/dS5GOQNaD1s29ug=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}');
INSERT INTO "artifacts" VALUES(2,'acme',938035916176954941,X'253C6A746A3C8A450BE445DF392930039D21A1B04817FF9DE6525B614E5C37EE',1,NULL,NULL,'text','https://example.org/?a=1',1709294400000000,1709294400000000,1709295000000000,NULL,600,0,1,'{"tool_call_id":"2","url":"https://example.org/?a=1"}',NULL,'{"size":8,"lines":2,"chars":8,"tokens":{"count":2,"exact":true,"encoding":"o200k_base"},"sha256":"w/nIwoOisfLxiW8noBy+PN3Aydk/dS5GOQNaD1s29ug=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}');
INSERT INTO "artifacts" VALUES(3,'acme',971439841517920682,X'13F6AED852355C2A6C9DD53E999D6125B50CE4272190F82E76041B1D22A81955',2,NULL,NULL,'text',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,1,1,'{"tool_call_id":"3"}',NULL,'{"size":4,"lines":0,"chars":4,"tokens":{"count":1,"exact":true,"encoding":"o200k_base"},"sha256":"O5w1jzbwoxtq0+FPMJx88ZiskkboMW+c5UPVsZrAK4A=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}');
INSERT INTO "artifacts" VALUES(5,'other',646964474368483917,X'001C07484C1E8A335932828E5D241CA7C03F01E5B8B4FE078E8426AD760F4200',4,NULL,NULL,'text',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,0,1,'{"tool_call_id":"5"}',NULL,'{"size":5,"lines":0,"chars":5,"tokens":{"count":1,"exact":true,"encoding":"o200k_base"},"sha256":"2SmKENGwc1g33EvYXaxkGw887yekfl1TpU8vP1svz/o=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}');
CREATE TABLE blobs (
	seq INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	placement TEXT NOT NULL, 
	sha256 BLOB NOT NULL, 
	digest BIGINT NOT NULL, 
	size BIGINT NOT NULL, 
	stored_size BIGINT NOT NULL, 
	frames BLOB NOT NULL, 
	dead_at BIGINT, 
	condemned_at BIGINT, 
	CONSTRAINT pk_blobs PRIMARY KEY (seq)
);
INSERT INTO "blobs" VALUES(1,'018df9e2b2007bad904bfde267d5c3ab','acme','inline',X'C3F9C8C283A2B1F2F1896F27A01CBE3CDDC0C9D93F752E4639035A0F5B36F6E8',-4325205229354962446,8,46,X'01010000020008000000000000002E0000000000000001000000B7114D931500000002000000',NULL,NULL);
INSERT INTO "blobs" VALUES(2,'018df9e2b20071f0b9a3eadb1b43329a','acme','file',X'3B9C358F36F0A31B6AD3E14F309C7CF198AC9246E8316F9CE543D5B19AC02B80',4295367033822946075,4,42,X'01010000020004000000000000002A0000000000000001000000E76796461100000000000000',NULL,NULL);
INSERT INTO "blobs" VALUES(3,'018df9e2b2007ba9ba6294ed907c57c8','acme','inline',X'283BB9DEEF02E6843ABFB538EFA1ECA70801BD8A701C3F98191E123496339247',2899115152286869124,4,42,X'01010000020004000000000000002A0000000000000001000000E76796461100000000000000',1709294400000000,NULL);
INSERT INTO "blobs" VALUES(4,'018df9e2b200786a81bd650def1b7507','other','inline',X'D9298A10D1B0735837DC4BD85DAC641B0F3CEF27A47E5D53A54F2F3F5B2FCFFA',-2798553888591940776,5,43,X'01010000020005000000000000002B00000000000000010000008900E6B81200000000000000',NULL,NULL);
CREATE TABLE idempotency_keys (
	namespace TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	fingerprint BLOB NOT NULL, 
	number BIGINT NOT NULL, 
	created BOOLEAN NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency_keys PRIMARY KEY (namespace, "key")
);
INSERT INTO "idempotency_keys" VALUES('acme','k',X'66',938035916176954941,1,2024654400000000);
CREATE TABLE inline_bytes (
	blob_seq INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	stored BLOB NOT NULL, 
	CONSTRAINT pk_inline_bytes PRIMARY KEY (blob_seq), 
	CONSTRAINT fk_inline_bytes_blob_seq FOREIGN KEY(blob_seq) REFERENCES blobs (seq) ON DELETE CASCADE
);
INSERT INTO "inline_bytes" VALUES(1,'acme',X'28B52FFD24084100006F6E650A74776F0AE6A60E405E2A4D181100000015000000080000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(3,'acme',X'28B52FFD2404210000676F6E65547FB1BB5E2A4D181100000011000000040000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(4,'other',X'28B52FFD24052900006F746865725A62E6A65E2A4D181100000012000000050000000100000000B1EA928F');
CREATE TABLE leases (
	name TEXT NOT NULL, 
	holder TEXT NOT NULL, 
	until BIGINT NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (name)
);
CREATE TABLE tombstones (
	namespace TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	reason TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	tool_name TEXT, 
	until BIGINT NOT NULL, 
	CONSTRAINT pk_tombstones PRIMARY KEY (namespace, number)
);
INSERT INTO "tombstones" VALUES('acme',934077519879315292,X'BB376C349B336D77B568C613DF3F464C6EC5442EDEE94020E03BEAFE2DFD5963','deleted',1709294400000000,'bash',2024654400000000);
CREATE TABLE uploads (
	blob_id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	placement TEXT NOT NULL, 
	lease_until BIGINT NOT NULL, 
	CONSTRAINT pk_uploads PRIMARY KEY (blob_id)
);
CREATE TABLE writers (
	id TEXT NOT NULL, 
	nonce BLOB NOT NULL, 
	at BIGINT NOT NULL, 
	CONSTRAINT pk_writers PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_blobs_id ON blobs (id);
CREATE INDEX ix_blobs_digest ON blobs (digest) WHERE dead_at IS NULL;
CREATE INDEX ix_blobs_dead_at_id ON blobs (dead_at, id) WHERE dead_at IS NOT NULL;
CREATE UNIQUE INDEX uq_artifacts_namespace_number ON artifacts (namespace, number);
CREATE INDEX ix_artifacts_namespace_seq ON artifacts (namespace, seq);
CREATE INDEX ix_artifacts_namespace_session_seq ON artifacts (namespace, session, seq) WHERE session IS NOT NULL;
CREATE INDEX ix_artifacts_blob_seq ON artifacts (blob_seq);
CREATE INDEX ix_artifacts_expires_at ON artifacts (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ix_uploads_lease_until ON uploads (lease_until);
CREATE INDEX ix_tombstones_until ON tombstones (until);
CREATE INDEX ix_idempotency_keys_expires_at ON idempotency_keys (expires_at);
COMMIT;
