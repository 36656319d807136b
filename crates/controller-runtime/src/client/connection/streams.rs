//! Concurrent streams on the HTTP/2 connections to one server: chooses the connection for the next request, and closes idle
//! ones.
//!
//! This state machine only counts; the [pool](crate::client::connection::pool) holds the connections. The oldest connection with room takes the
//! next request, so that younger ones become idle after a burst and can be closed.

/// Largest number of connections. When all are full, requests wait on the connection with the fewest.
const MAX_CONNECTIONS: usize = 64;

/// Largest number of streams on one connection, whatever its server allows.
const MAX_STREAMS: usize = 1000;

/// A connection of a pool. IDs are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

/// Requests in flight on each connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// In the order in which they were opened.
    connections: Vec<Connection>,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    in_flight: usize,
    limit: usize,
}

impl Connection {
    fn free(&self) -> usize {
        self.limit.saturating_sub(self.in_flight)
    }
}

impl Streams {
    /// Adds a connection to a server that allows `limit` concurrent streams.
    pub(super) fn add(&mut self, limit: usize) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        self.connections.push(Connection { id, in_flight: 0, limit: clamp(limit) });
        id
    }

    /// Removes a connection that has closed.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.connections.retain(|connection| connection.id != id);
    }

    /// Places a request; `None` if a connection must be opened for it.
    pub(super) fn place(&mut self) -> Option<ConnectionId> {
        let is_full = self.connections.len() >= MAX_CONNECTIONS;
        // Connections are filled in the order of their opening, so that later ones become idle and can close.
        let with_room = self.connections.iter_mut().find(|connection| connection.free() > 0);
        let connection = match with_room {
            Some(connection) => connection,
            None if is_full => self.connections.iter_mut().min_by_key(|connection| connection.in_flight)?,
            None => return None,
        };
        connection.in_flight += 1;
        Some(connection.id)
    }

    /// Ends a request. Returns whether its connection should close: it is idle, and the others have room for half of its
    /// streams. That margin keeps a load that varies by a few requests from opening and closing the connection each time.
    pub(super) fn finish(&mut self, id: ConnectionId) -> bool {
        // Absent if the connection closed before the request ended.
        let Some(connection) = self.find(id) else { return false };
        connection.in_flight = connection.in_flight.saturating_sub(1);
        let (is_idle, limit) = (connection.in_flight == 0, connection.limit);
        let others = self.connections.iter().filter(|other| other.id != id);
        let closes = is_idle && others.map(Connection::free).sum::<usize>() >= limit.div_ceil(2);
        if closes {
            self.remove(id);
        }
        closes
    }

    fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }
}

/// A limit of zero would make every new connection useless, so it counts as one.
fn clamp(limit: usize) -> usize {
    limit.clamp(1, MAX_STREAMS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_connection_is_filled_before_another_one_is_opened() {
        let mut streams = Streams::default();
        assert_eq!(streams.place(), None);
        let first = streams.add(2);
        assert_eq!([streams.place(), streams.place(), streams.place()], [Some(first), Some(first), None]);
        let second = streams.add(2);
        assert_eq!(streams.place(), Some(second));
        assert!(!streams.finish(first));
        assert_eq!(streams.place(), Some(first), "the older one, so that the younger one can close");
    }

    #[test]
    fn an_idle_connection_closes_when_the_others_have_room() {
        let mut streams = Streams::default();
        let first = streams.add(2);
        streams.place();
        streams.place();
        let second = streams.add(2);
        streams.place();
        assert!(!streams.finish(second), "the first one is full");
        streams.place();
        streams.finish(first);
        assert!(streams.finish(second));
        assert!(!streams.finish(first), "the last one stays");
    }

    #[test]
    fn extreme_stream_limits_of_a_server_are_clamped() {
        let mut streams = Streams::default();
        let only = streams.add(usize::MAX);
        for _ in 0..MAX_STREAMS {
            assert_eq!(streams.place(), Some(only));
        }
        assert_eq!(streams.place(), None);
        let narrow = streams.add(0);
        assert_eq!([streams.place(), streams.place()], [Some(narrow), None]);
    }

    #[test]
    fn requests_beyond_the_limits_wait_on_the_connection_with_the_fewest() {
        let mut streams = Streams::default();
        for _ in 0..MAX_CONNECTIONS {
            let id = streams.add(1);
            assert_eq!(streams.place(), Some(id));
        }
        let first = streams.place().expect("no connection may be added");
        assert_ne!(streams.place(), Some(first));
    }

    proptest! {
        /// A request is placed above a limit only when no more connections may be opened, and every request that ends frees its
        /// stream.
        #[test]
        fn no_connection_carries_more_than_its_server_allows(
            steps in proptest::collection::vec((0u8..4, 0usize..5), 1..400),
        ) {
            let mut streams = Streams::default();
            let mut requests = Vec::new();
            for (step, number) in steps {
                match step {
                    0 | 1 => {
                        let id = streams.place().unwrap_or_else(|| {
                            streams.add(number);
                            streams.place().expect("a new connection has room")
                        });
                        requests.push(id);
                    }
                    2 if !requests.is_empty() => {
                        let id = requests.swap_remove(number % requests.len());
                        if streams.finish(id) {
                            prop_assert!(!requests.contains(&id), "a connection in use was closed");
                        }
                    }
                    _ => {
                        if let Some(id) = streams.connections.get(number).map(|connection| connection.id) {
                            streams.remove(id);
                            requests.retain(|request| *request != id);
                        }
                    }
                }
                let carried: usize = streams.connections.iter().map(|connection| connection.in_flight).sum();
                prop_assert_eq!(carried, requests.len());
                let is_full = streams.connections.len() >= MAX_CONNECTIONS;
                let over = streams.connections.iter().any(|connection| connection.in_flight > connection.limit);
                prop_assert!(!over || is_full);
            }
        }
    }
}
