//! Handlers that work on decoded objects.

use std::future::{Future, ready};

use super::{
    admission::{Admission, Operation},
    registration::AdmitFn,
    rejection::Verdict,
};
use crate::object::StaticObject;

/// A kind with defaults that depend on other fields or on the request. Set constant defaults in the schema of the
/// CustomResourceDefinition instead. For an example see the [module](super).
///
/// The API server calls mutating webhooks at each write, and at writes of the status if a rule names that subresource. It may
/// call them several times for one write, so setting the defaults of an object that has them must change nothing.
#[doc(alias = "CustomDefaulter")]
pub trait Defaulter: StaticObject {
    /// Operations that set defaults. Default: creations and updates.
    const OPERATIONS: &'static [Operation] = &[Operation::Create, Operation::Update];

    /// Sets missing fields. Fields that the type does not know stay as they are.
    ///
    /// # Cancellation
    ///
    /// The future is dropped when the API server's timeout has passed.
    ///
    /// # Errors
    ///
    /// A [`Rejection`](super::Rejection) refuses the operation.
    fn set_defaults(&mut self, cx: &Admission) -> impl Future<Output = Verdict> + Send;
}

/// A kind with rules that its schema cannot express. For an example see the [module](super).
#[doc(alias = "CustomValidator")]
pub trait Validator: StaticObject {
    /// Operations that are validated. Default: creations and updates. With deletions, objects of the kind cannot be deleted while
    /// the operator is down.
    const OPERATIONS: &'static [Operation] = &[Operation::Create, Operation::Update];

    /// Validates a new object. Default: accepts it.
    ///
    /// # Errors
    ///
    /// A [`Rejection`](super::Rejection) refuses the operation.
    fn validate_create(&self, cx: &Admission) -> impl Future<Output = Verdict> + Send {
        let _ = cx;
        ready(Ok(()))
    }

    /// Validates a changed object. Default: accepts it.
    ///
    /// # Errors
    ///
    /// A [`Rejection`](super::Rejection) refuses the operation.
    fn validate_update(&self, old: &Self, cx: &Admission) -> impl Future<Output = Verdict> + Send {
        let _ = (old, cx);
        ready(Ok(()))
    }

    /// Validates a deletion; called if [`OPERATIONS`](Self::OPERATIONS) contains [`Operation::Delete`]. Default: accepts it.
    ///
    /// # Errors
    ///
    /// A [`Rejection`](super::Rejection) refuses the operation.
    fn validate_delete(&self, cx: &Admission) -> impl Future<Output = Verdict> + Send {
        let _ = cx;
        ready(Ok(()))
    }
}

/// Returns the handler of a mutating webhook that sets the defaults of `K`.
pub(super) fn defaulter<K: Defaulter>() -> AdmitFn {
    Box::new(|cx| {
        Box::pin(async move {
            // A deletion has no object to change. The object of a connection is its options, not a `K`.
            if !matches!(cx.operation(), Operation::Create | Operation::Update) {
                return Ok(None);
            }
            let before: K = cx.object()?;
            let mut after = before.clone();
            after.set_defaults(&cx).await?;
            cx.changed(&before, &after)
        })
    })
}

/// Returns the handler of a validating webhook that validates `K`.
pub(super) fn validator<K: Validator>() -> AdmitFn {
    Box::new(|cx| {
        Box::pin(async move {
            match cx.operation() {
                Operation::Create => cx.object::<K>()?.validate_create(&cx).await?,
                Operation::Update => {
                    let (new, old) = (cx.object::<K>()?, cx.old_object::<K>()?);
                    new.validate_update(&old, &cx).await?;
                }
                Operation::Delete => cx.old_object::<K>()?.validate_delete(&cx).await?,
                // Admitted, as in Go: the object of a connection is its options, not a `K`.
                Operation::Connect => {}
            }
            Ok(None)
        })
    })
}
