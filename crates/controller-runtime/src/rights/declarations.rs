//! All rights that an operator needs.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use super::{
    declaration::Declaration,
    right::{RightScope, Target, in_order},
    roles::Roles,
};

/// The rights that an operator needs, by the registrations of its manager. Returned by
/// [`Manager::declarations`](crate::Manager::declarations).
///
/// Its display is a table: verbs, resource, registration, place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations {
    /// In the order of resources, without duplicates.
    all: BTreeSet<Declaration>,
}

impl Declarations {
    /// The declarations in the order of resources.
    pub fn iter(&self) -> impl Iterator<Item = &Declaration> {
        self.all.iter()
    }

    /// Returns whether there is no declaration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The smallest roles that grant these rights, and no other ones, to an operator that runs in `namespace`. All are called
    /// `name`.
    ///
    /// A right that several registrations need is granted once. A right in a single namespace is left out where the ClusterRole
    /// grants it.
    ///
    /// ```
    /// # use controller_runtime::{Action, Builder, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # struct PrintNames;
    /// # impl Reconciler for PrintNames {
    /// #     type Request = ObjectKey<ConfigMap>;
    /// #     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
    /// #         Ok(Action::done())
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let env = kube_envtest::Environment::builder().start().await?;
    /// # let manager = Manager::new(env.client(), ManagerOptions::new("print-names"));
    /// Builder::managed_by(&manager).for_kind::<ConfigMap>().without_events().complete(PrintNames)?;
    ///
    /// let roles = manager.declarations().roles("print-names", "print-system");
    /// let rules = roles.cluster_role.expect("it watches all namespaces").rules.unwrap_or_default();
    /// assert_eq!(rules[0].resources, Some(vec!["configmaps".to_owned()]));
    /// assert_eq!(rules[0].verbs, ["list", "watch"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn roles(&self, name: &str, namespace: &str) -> Roles {
        Roles::of(self.all.iter().map(|declaration| &declaration.right), name, namespace)
    }
}

impl FromIterator<Declaration> for Declarations {
    fn from_iter<I: IntoIterator<Item = Declaration>>(all: I) -> Self {
        Self { all: all.into_iter().collect() }
    }
}

impl IntoIterator for Declarations {
    type Item = Declaration;
    type IntoIter = std::collections::btree_set::IntoIter<Declaration>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl<'d> IntoIterator for &'d Declarations {
    type Item = &'d Declaration;
    type IntoIter = std::collections::btree_set::Iter<'d, Declaration>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

/// Heading of the rights with this scope.
fn heading(scope: &RightScope) -> String {
    match scope {
        RightScope::Cluster => "in the cluster".to_owned(),
        RightScope::OwnNamespace => "in the operator's namespace".to_owned(),
        RightScope::Namespaces { names, may_change } => {
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            let now = if *may_change { " at the moment" } else { "" };
            format!("in {}{now}", if names.is_empty() { "no namespace".to_owned() } else { names.join(", ") })
        }
    }
}

/// Formats as a table for each scope: verbs, resource, controller and registration, place.
impl fmt::Display for Declarations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes: BTreeSet<&RightScope> = self.all.iter().map(|one| &one.right.scope).collect();
        for scope in scopes {
            writeln!(f, "{}", heading(scope))?;
            let rows: Vec<_> = self.all.iter().filter(|one| one.right.scope == *scope).map(row).collect();
            let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
            let [verbs, target, reason] = [0, 1, 2].map(width);
            for row in &rows {
                writeln!(f, "  {:verbs$}  {:target$}  {:reason$}  {}", row[0], row[1], row[2], row[3])?;
            }
        }
        Ok(())
    }
}

fn row(declaration: &Declaration) -> [String; 4] {
    let Declaration { right, controller, reason, place, .. } = declaration;
    let verbs: Vec<&Cow<'static, str>> = right.verbs.iter().collect();
    let target = match &right.target {
        Target::Url(path) => path.clone(),
        objects @ Target::Objects { .. } => objects.to_string(),
    };
    let reason = match controller {
        Some(controller) => format!("{controller}: {reason}"),
        None => reason.to_string(),
    };
    [in_order(verbs).join(" "), target, reason, format!("{}:{}", place.file(), place.line())]
}
