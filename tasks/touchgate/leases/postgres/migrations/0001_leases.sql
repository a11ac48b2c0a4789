-- Hosts register themselves. gpus: every UUID that a run has seen there. drained: why nothing new is granted, '' where it is.
CREATE TABLE IF NOT EXISTS touchgate.host (
    name text PRIMARY KEY,
    gpus text[] NOT NULL DEFAULT '{}',
    drained text NOT NULL DEFAULT '',
    seen timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE SEQUENCE IF NOT EXISTS touchgate.request;
CREATE SEQUENCE IF NOT EXISTS touchgate.token;

-- One row a request, from asking to its end.
-- mark: made by who asks, so that asking twice (a connection cut while it commits) is asking once.
-- state: waiting; lost: waiting, but it has not answered, so it is passed over until it does; held; ended.
-- beat: when it was last heard of, by this server's clock; NULL for a reservation, which holds by the clock.
-- spared: beat was set anew once, because nobody at all had been heard of (a server that was away, a clock that was set).
CREATE TABLE IF NOT EXISTS touchgate.lease (
    id bigint PRIMARY KEY,
    mark text NOT NULL UNIQUE,
    state text NOT NULL CHECK (state IN ('waiting', 'lost', 'held', 'ended')),
    hosts integer NOT NULL,
    gpus integer NOT NULL,
    names text[] NOT NULL,
    among text[] NOT NULL,
    priority integer NOT NULL,
    seconds double precision,
    reserves boolean NOT NULL,
    username text NOT NULL,
    host text NOT NULL,
    pid integer,
    what text NOT NULL,
    url text,
    sha text,
    ttl double precision NOT NULL CHECK (ttl > 0),
    asked timestamptz NOT NULL,
    beat timestamptz,
    spared boolean NOT NULL DEFAULT false,
    token bigint UNIQUE,
    granted timestamptz,
    taken timestamptz,
    until timestamptz,
    within bigint,
    ended timestamptz,
    why text,
    CHECK (state <> 'held' OR token IS NOT NULL)
);
CREATE INDEX IF NOT EXISTS lease_live ON touchgate.lease (state) WHERE state <> 'ended';
CREATE INDEX IF NOT EXISTS lease_ended ON touchgate.lease (ended) WHERE state = 'ended';

-- What a lease has while it is held: a whole host (gpu '') or one GPU of it. The index is a second belt below the scheduler.
CREATE TABLE IF NOT EXISTS touchgate.share (
    lease bigint NOT NULL REFERENCES touchgate.lease ON DELETE CASCADE,
    host text NOT NULL,
    gpu text NOT NULL DEFAULT '',
    reserves boolean NOT NULL,
    PRIMARY KEY (lease, host, gpu)
);
CREATE UNIQUE INDEX IF NOT EXISTS share_once ON touchgate.share (host, gpu) WHERE NOT reserves;

-- What happened, in order; only ever added to, and pruned by age.
CREATE TABLE IF NOT EXISTS touchgate.event (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text NOT NULL,
    lease bigint,
    token bigint,
    username text NOT NULL,
    host text NOT NULL,
    words text NOT NULL
);
CREATE INDEX IF NOT EXISTS event_at ON touchgate.event (at);
