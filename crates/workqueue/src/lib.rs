//! client-go's workqueue.
