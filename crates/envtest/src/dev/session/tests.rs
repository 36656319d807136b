//! Tests of sessions that follow each other in one folder.

use super::*;

fn session_options(folder: &Path) -> SessionOptions {
    SessionOptions::new(folder).keep_objects(PreviousObjects::Restore)
}

/// A service account, and a role with a binding for each of these names.
fn rights(roles: &[&str]) -> Rendered {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let account = json!({ "kind": "ServiceAccount", "name": "album", "namespace": "shop" });
    let mut rights = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "album", "namespace": "shop" } }),
    ];
    for name in roles {
        let role = json!({ "apiGroup": group, "kind": "ClusterRole", "name": name });
        rights.push(json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": { "name": name },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
        }));
        rights.push(json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": role, "subjects": [account],
        }));
        rights.push(json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": { "name": name, "namespace": "shop" },
            "roleRef": role, "subjects": [account],
        }));
    }
    Rendered { definitions: Vec::new(), rights, services: Vec::new() }
}

/// Names of the roles, cluster-wide bindings, and bindings in namespaces.
async fn roles(session: &Session) -> [Vec<String>; 3] {
    async fn names<K>(client: kube::Client) -> Vec<String>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let listed = Api::<K>::all(client).list(&ListParams::default()).await.expect("a list");
        listed.iter().map(ResourceExt::name_any).filter(|name| !name.starts_with("system:")).collect()
    }
    let client = session.client();
    [
        names::<ClusterRole>(client.clone()).await,
        names::<ClusterRoleBinding>(client.clone()).await,
        names::<RoleBinding>(client).await,
    ]
}

/// Like [`roles`], without those of `before`.
async fn new_roles(session: &Session, before: &[Vec<String>; 3]) -> [Vec<String>; 3] {
    let mut roles = roles(session).await;
    for (names, before) in roles.iter_mut().zip(before) {
        names.retain(|name| !before.contains(name));
    }
    roles
}

/// Carries out a session as a process does: at its end nothing of the session is left, not even a cancelled task.
fn process<T>(session: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(session)
}

/// Two sessions of one folder would write the same files. The second one fails before it changes any.
#[test]
fn a_folder_has_one_session_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let contents = || {
        let files =
            fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path());
        // The server may write the file with the objects at any time.
        let mut files: Vec<_> = files
            .map(|path| match path.ends_with("objects.redb") {
                true => (path, Vec::new()),
                false => (path.clone(), fs::read(path).expect("a file")),
            })
            .collect();
        files.sort();
        files
    };
    process(async {
        let (mut session, _progress) =
            Session::start(session_options(folder.path())).await.expect("a session");
        session.grant(&rights(&["album"])).await.expect("rights");
        session.publish(&SessionFlags::new(&[]).expect("ports are free")).expect("a file");
        let before = contents();
        assert_eq!(before.len(), 5, "{before:?}");
        for second in [
            session_options(folder.path()),
            session_options(folder.path()).keep_objects(PreviousObjects::Delete),
            SessionOptions::new(folder.path()),
        ] {
            let refused = Session::start(second).await.map(|_| ()).expect_err("it is in use");
            let text = refused.to_string();
            assert!(text.starts_with("another session of this project uses "), "{text}");
            assert_eq!(contents(), before);
        }
    });
    process(async {
        let (session, _progress) =
            Session::start(session_options(folder.path())).await.expect("the other has ended");
        assert!(roles(&session).await[0].contains(&"album".to_owned()), "the objects are there");
    });
}

/// A right that a program no longer declares would hide that it is missing, also if a session before has granted it.
#[test]
fn rights_of_earlier_programs_and_sessions_are_taken_away() {
    let folder = tempfile::tempdir().expect("a folder");
    // The role of the user has no bindings.
    let added = |roles: &[&str]| {
        let roles: Vec<_> = roles.iter().map(|role| (*role).to_owned()).collect();
        let bound = roles.iter().filter(|role| *role != "mine").cloned().collect::<Vec<_>>();
        [roles, bound.clone(), bound]
    };
    let before = process(async {
        let (mut session, _progress) =
            Session::start(session_options(folder.path())).await.expect("a session");
        let before = roles(&session).await;
        let own = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "mine" },
            "rules": [],
        });
        apply(&session.client(), own, "samples").await.expect("a role of the user");
        session.grant(&rights(&["album", "photo", "theme"])).await.expect("rights");
        assert_eq!(new_roles(&session, &before).await, added(&["album", "mine", "photo", "theme"]));
        session.grant(&rights(&["album", "photo"])).await.expect("rights");
        assert_eq!(new_roles(&session, &before).await, added(&["album", "mine", "photo"]));
        before
    });
    process(async {
        let (mut session, _progress) =
            Session::start(session_options(folder.path())).await.expect("a session");
        assert_eq!(new_roles(&session, &before).await, added(&["album", "mine", "photo"]), "restored");
        session.grant(&rights(&["album"])).await.expect("rights");
        assert_eq!(new_roles(&session, &before).await, added(&["album", "mine"]));
        let [all, ..] = roles(&session).await;
        assert!(all.contains(&READER.to_owned()), "the page of explanations can be read: {all:?}");
    });
}
