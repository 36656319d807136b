use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{inlet::Gathering, many, recent::Recent, split::Split},
    *,
};

const LEAN: Intake = Intake { managed_fields: false, transform: None };
const FULL: Intake = Intake { managed_fields: true, transform: None };

fn shelf(retain: Retain) -> Shelf<ConfigMap> {
    Shelf::new(&(), Holding::of(retain), LEAN)
}

fn object(name: &str, version: u32, data: &Value) -> String {
    let metadata = json!({
        "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(),
        "annotations": { "note": "a" }, "managedFields": [{ "manager": "m" }],
    });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }).to_string()
}

/// Returns an object of about 2 KB that resembles the others of its family.
fn alike(name: &str, family: u64, version: u32) -> String {
    of_family(&common_to(family), name, version)
}

/// Returns the data that the objects of a family have in common.
fn common_to(family: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(family);
    (0..40).map(|i| format!("\"key{i}\":\"{:x}\",", rng.u128(..))).collect()
}

fn of_family(common: &str, name: &str, version: u32) -> String {
    let text = object(name, version, &json!({ "own": format!("{name} {version}") }));
    text.replacen("\"data\":{", &format!("\"data\":{{{common}"), 1)
}

/// Adds an object, then trains and compresses if that is due, like the reflector.
fn take(shelf: &Shelf<ConfigMap>, text: &str) -> Lazy<ConfigMap> {
    let taken = shelf.take(&Arrival::new(text)).expect("a key");
    if shelf.is_training_due() {
        train(shelf);
    }
    taken
}

/// Trains the dictionary that is due, and compresses the texts that wait for it.
fn train(shelf: &Shelf<ConfigMap>) {
    if let Some(samples) = shelf.samples() {
        shelf.learn(samples.train());
    }
    while shelf.is_behind() {
        shelf.catch_up();
    }
}

fn own(object: &Lazy<ConfigMap>) -> String {
    object.object().expect("it fits").data.as_ref().expect("data")["own"].clone()
}

#[test]
fn few_objects_stay_as_they_are_and_many_are_compressed() {
    let shelf = shelf(Retain::Compact);
    let mut held: Vec<_> = (0..100).map(|i| take(&shelf, &alike(&i.to_string(), 1, 1))).collect();
    let Stats { trainings, cold_bytes: plain, .. } = shelf.stats();
    assert_eq!(trainings, 0);
    assert!(plain < Gathering::ENOUGH);
    held.extend((100..600).map(|i| take(&shelf, &alike(&i.to_string(), 1, 1))));
    let Stats { trainings, cold_bytes, objects, hot, .. } = shelf.stats();
    assert_eq!((trainings, objects, hot), (1, 600, 0));
    assert!(cold_bytes * 5 < plain * 6, "{cold_bytes} bytes for 600 objects, {plain} for 100 of them before");
    for (i, object) in held.iter().enumerate() {
        assert_eq!(own(object), format!("{i} 1"));
        assert!(object.object().expect("it fits").metadata.managed_fields.is_none());
    }
    drop(held);
    let Stats { objects, cold_bytes, .. } = shelf.stats();
    assert_eq!((objects, cold_bytes), (0, 0));
}

/// Objects of some 50 bytes each, of which there are many in the samples of a dictionary.
#[test]
fn taking_an_object_trains_no_dictionary_and_compresses_little() {
    for retain in [Retain::Compact, Retain::default()] {
        let shelf = shelf(retain);
        let small = |number: usize| {
            format!(
                r#"{{"metadata":{{"name":"{number}","namespace":"ns","resourceVersion":"1"}},"data":{{"own":"{number} 1"}}}}"#
            )
        };
        let mut held = Vec::new();
        while !shelf.is_training_due() {
            held.push(shelf.take(&Arrival::new(&small(held.len()))).expect("a key"));
        }
        // Objects that arrive during the training wait as well.
        let samples = shelf.samples().expect("they are due");
        for number in held.len()..held.len() + 3000 {
            held.push(shelf.take(&Arrival::new(&small(number))).expect("a key"));
        }
        assert_eq!(shelf.stats().trainings, 0, "{retain:?}");
        shelf.learn(samples.train());
        assert_eq!((shelf.stats().trainings, shelf.is_training_due()), (1, false), "{retain:?}");
        let plain = |shelf: &Shelf<ConfigMap>| shelf.stats().cold_bytes;
        let (all, mut pieces) = (plain(&shelf), 0);
        assert!(all > Gathering::ENOUGH, "{all} bytes");
        let mut left = all;
        while shelf.is_behind() {
            shelf.catch_up();
            let compressed = left - plain(&shelf);
            assert!(compressed <= Recent::AT_ONCE, "{compressed} bytes at once");
            (left, pieces) = (plain(&shelf), pieces + 1);
        }
        assert!(pieces > 10, "{pieces} pieces");
        assert!(2 * left < all, "{retain:?}: {left} of {all} bytes");
        assert!(held.iter().enumerate().all(|(number, held)| own(held) == format!("{number} 1")));
    }
}

#[test]
fn a_training_that_is_given_up_is_due_still() {
    let shelf = shelf(Retain::Compact);
    let mut held = Vec::new();
    while !shelf.is_training_due() {
        held.push(shelf.take(&Arrival::new(&alike(&held.len().to_string(), 1, 1))).expect("a key"));
    }
    drop(shelf.samples().expect("they are due"));
    assert!(shelf.is_training_due());
    train(&shelf);
    assert_eq!((shelf.stats().trainings, shelf.is_training_due()), (1, false));
    // Texts that have been replaced before they are copied are no samples.
    let shelf = self::shelf(Retain::Compact);
    while !shelf.is_training_due() {
        held.push(shelf.take(&Arrival::new(&alike(&held.len().to_string(), 1, 1))).expect("a key"));
    }
    held.clear();
    assert!(shelf.samples().is_none() && !shelf.is_training_due());
}

#[test]
fn objects_that_change_their_nature_are_learnt_anew_and_dictionaries_are_few() {
    let shelf = shelf(Retain::Compact);
    let mut held = Vec::new();
    for family in 0..6 {
        let common = common_to(family);
        // Some states of earlier families stay, so their dictionaries are still used.
        held.truncate(usize::try_from(family).expect("few") * 10);
        for i in 0..4500 {
            held.push((format!("{i} 1"), take(&shelf, &of_family(&common, &i.to_string(), 1))));
        }
    }
    let trainings = shelf.stats().trainings;
    assert!((2..=Core::DICTIONARIES).contains(&trainings), "{trainings} trainings");
    for (text, object) in &held {
        assert_eq!(own(object), *text);
    }
}

#[test]
fn an_unreadable_object_is_counted_once_however_often_it_is_read() {
    for retain in [Retain::Compact, Retain::Decoded, Retain::default()] {
        let shelf = shelf(retain);
        let bad = shelf.take(&Arrival::new(&object("bad", 3, &json!({ "a": 5 })))).expect("it has a key");
        for _ in 0..3 {
            let error = bad.object().expect_err("its data are no strings");
            assert_eq!(error.path(), "data.a");
        }
        assert_eq!(shelf.stats().unreadable, 1, "{retain:?}");
        assert_eq!(bad.object_meta().expect("its metadata are fine").name.as_deref(), Some("bad"));
    }
}

#[test]
fn what_is_retained_decides_how_often_is_decoded() {
    for (retain, decodes, hot) in
        [(Retain::Compact, 6, 0), (Retain::Budget(1 << 20), 4, 2), (Retain::Budget(10), 6, 0)]
    {
        let shelf = shelf(retain);
        let held: Vec<_> =
            ["a", "b"].map(|name| shelf.take(&Arrival::new(&alike(name, 1, 1))).expect("a key")).into();
        for _ in 0..3 {
            held.iter().for_each(|object| drop(object.object().expect("it fits")));
        }
        let stats = shelf.stats();
        assert_eq!((stats.decodes, stats.hot), (decodes, hot), "{retain:?}");
    }
    let shelf = shelf(Retain::Decoded);
    let object = shelf.take(&Arrival::new(&alike("a", 1, 1))).expect("a key");
    assert!(Arc::ptr_eq(&object.object().expect("it fits"), &object.object().expect("it fits")));
    let stats = shelf.stats();
    assert_eq!((stats.decodes, stats.cold_bytes, stats.hot), (1, 0, 1));
    drop(object);
    assert_eq!((shelf.stats().hot, shelf.stats().hot_bytes), (0, 0));
}

#[test]
fn an_object_that_the_cache_lets_go_of_stays_valid_for_its_reader() {
    let shelf = shelf(Retain::Budget(Core::GROWTH * 4000));
    let first = shelf.take(&Arrival::new(&alike("first", 1, 1))).expect("a key");
    first.object().expect("it fits");
    let read = first.object().expect("it fits");
    assert_eq!(Arc::strong_count(&read), 2, "the second read keeps it");
    let others: Vec<_> =
        (0..20).map(|i| shelf.take(&Arrival::new(&alike(&i.to_string(), 1, 1))).expect("a key")).collect();
    others
        .iter()
        .for_each(|other| drop((other.object().expect("it fits"), other.object().expect("it fits"))));
    assert_eq!(Arc::strong_count(&read), 1, "the cache has let go of it");
    assert_eq!(read.metadata.name.as_deref(), Some("first"));
    assert_eq!(first.object().expect("it fits"), read);
}

#[test]
fn kinds_share_a_budget() {
    let budget = Holding::of(Retain::Budget(Core::GROWTH * 3000));
    let shelves = [(); 2].map(|()| Shelf::<ConfigMap>::new(&(), budget.clone(), LEAN));
    let held: Vec<_> =
        shelves.iter().map(|shelf| shelf.take(&Arrival::new(&alike("a", 1, 1))).expect("a key")).collect();
    held.iter()
        .for_each(|object| drop((object.object().expect("it fits"), object.object().expect("it fits"))));
    assert_eq!(shelves.each_ref().map(|shelf| shelf.stats().hot), [0, 1]);
}

#[test]
fn the_same_text_can_be_read_as_another_type() {
    #[derive(Deserialize, PartialEq, Debug)]
    struct Slim {
        data: Data,
    }
    #[derive(Deserialize, PartialEq, Debug)]
    struct Data {
        own: String,
    }
    for retain in [Retain::Compact, Retain::Decoded] {
        let shelf = shelf(retain);
        let object = shelf.take(&Arrival::new(&alike("a", 1, 7))).expect("a key");
        let slim = Slim { data: Data { own: "a 7".to_owned() } };
        assert_eq!(object.decode_as::<Slim>().expect("it fits"), slim, "{retain:?}");
        let error = object.decode_as::<BTreeMap<String, String>>().expect_err("data are no string");
        assert_eq!(error.path(), "data");
        let meta = object.object_meta().expect("it has metadata");
        assert_eq!(meta.annotations.expect("annotations")["note"], "a");
    }
}

#[test]
fn several_types_of_one_kind_hold_its_text_once() {
    let dynamic = |retain, intake| {
        Shelf::<DynamicObject>::new(&ApiResource::erase::<ConfigMap>(&()), Holding::of(retain), intake)
    };
    let text = alike("a", 1, 1);
    let theme = |object: &Lazy<DynamicObject>| object.object().expect("it fits").data["data"]["own"].clone();

    let (first, second) = (shelf(Retain::Compact), dynamic(Retain::Compact, LEAN));
    let metadata = Shelf::<PartialObjectMeta<ConfigMap>>::new(&(), Holding::Compact, LEAN);
    let arrival = Arrival::new(&text);
    let held = (first.take(&arrival), second.take(&arrival), metadata.take(&arrival));
    let (Some(typed), Some(untyped), Some(meta)) = held else { panic!("they have a key") };
    assert_eq!((own(&typed), theme(&untyped)), ("a 1".to_owned(), json!("a 1")));
    assert_eq!(
        meta.object().expect("it fits").metadata.annotations.as_ref().expect("annotations")["note"],
        "a"
    );
    let (first, second) = (first.stats(), second.stats());
    assert_eq!((first.objects, first.shared), (1, 0));
    assert_eq!((second.objects, second.shared, second.cold_bytes), (1, 1, 0));

    drop((typed, meta));
    assert_eq!(theme(&untyped), json!("a 1"), "the text stays as long as somebody refers to it");
    drop(untyped);
    assert_eq!(metadata.stats().objects, 0);
}

#[test]
fn who_holds_no_text_or_another_one_shares_none() {
    let text = alike("a", 1, 1);
    for (first, intake, shared) in
        [(Retain::Compact, LEAN, 1), (Retain::Decoded, LEAN, 0), (Retain::Compact, FULL, 0)]
    {
        let (first, second, arrival) = (shelf(first), shelf(Retain::Compact), Arrival::new(&text));
        let other = Shelf::<ConfigMap>::new(&(), Holding::Compact, intake.clone());
        let held = (first.take(&arrival), other.take(&arrival), second.take(&arrival));
        assert_eq!(other.stats().shared, shared, "{intake:?}");
        assert_eq!(own(&held.1.expect("a key")), "a 1");
    }
    let (first, decoded, arrival) = (shelf(Retain::Compact), shelf(Retain::Decoded), Arrival::new(&text));
    let held = [first.take(&arrival), decoded.take(&arrival)];
    assert_eq!(own(held[1].as_ref().expect("a key")), "a 1");
    assert_eq!((decoded.stats().hot, decoded.stats().shared), (1, 0), "what is decoded needs no text");
}

#[test]
fn metadata_that_came_alone_are_no_whole_object() {
    let metadata = Shelf::<PartialObjectMeta<ConfigMap>>::new(&(), Holding::Compact, LEAN);
    let alone = json!({
        "metadata": { "namespace": "ns", "name": "a", "uid": "a", "resourceVersion": "1" },
    })
    .to_string();
    let before = metadata.take(&Arrival::new(&alone)).expect("a key");
    // From now on whole objects are read, so they are listed again.
    let (whole, text) = (shelf(Retain::Compact), alike("a", 1, 1));
    let arrival = Arrival::new(&text);
    assert!(metadata.take_unless(&arrival, |_| Known::Same(before.clone())).expect("a key").ptr_eq(&before));
    assert_eq!(own(&whole.take(&arrival).expect("a key")), "a 1");
}

#[test]
fn who_reads_metadata_holds_nothing_else_unless_somebody_does() {
    let metadata = |intake| Shelf::<PartialObjectMeta<ConfigMap>>::new(&(), Holding::Compact, intake);
    let note = |object: &Lazy<PartialObjectMeta<ConfigMap>>| {
        let object = object.object().expect("it fits");
        object.metadata.annotations.as_ref().expect("annotations")["note"].clone()
    };
    let text = alike("a", 1, 1);
    for (first, intake, managed_fields) in [(Retain::Decoded, LEAN, None), (Retain::Compact, FULL, Some(1))] {
        let (first, alone, arrival) = (shelf(first), metadata(intake), Arrival::new(&text));
        let held = (first.take(&arrival), alone.take(&arrival).expect("a key"));
        assert_eq!(alone.stats().shared, 0);
        assert!(alone.stats().cold_bytes * 4 < text.len(), "{:?} of {}", alone.stats(), text.len());
        let object = held.1.object().expect("it fits");
        assert_eq!(
            (note(&held.1).as_str(), object.metadata.managed_fields.as_ref().map(Vec::len)),
            ("a", managed_fields)
        );
    }
}

#[test]
fn the_text_of_a_whole_object_goes_with_the_last_who_read_it_whole() {
    let (whole, metadata) =
        (shelf(Retain::Compact), Shelf::<PartialObjectMeta<ConfigMap>>::new(&(), Holding::Compact, LEAN));
    let text = alike("a", 1, 1);
    let arrival = Arrival::new(&text);
    let (first, held) = (whole.take(&arrival), metadata.take(&arrival).expect("a key"));
    drop((first, arrival));
    assert_eq!((whole.stats().objects, metadata.stats().shared), (1, 1), "the metadata are in it");
    // Whole objects are not read any more: only metadata are listed.
    let alone = Split::whole(text.as_bytes()).expect("an object").metadata_alone().expect("metadata");
    let again = metadata.take_unless(&Arrival::new(&alone), |_| Known::Same(held.clone())).expect("a key");
    assert!(again.ptr_eq(&held), "it is the same state");
    let stats = metadata.stats();
    assert_eq!((whole.stats().objects, whole.stats().cold_bytes), (0, 0));
    assert_eq!((stats.objects, stats.shared), (1, 0));
    assert!(stats.cold_bytes > 0 && stats.cold_bytes * 4 < text.len(), "{stats:?}");
    assert_eq!(
        held.object().expect("it fits").metadata.annotations.as_ref().expect("annotations")["note"],
        "a"
    );
    drop((held, again));
    assert_eq!((metadata.stats().objects, metadata.stats().cold_bytes), (0, 0));
}

#[test]
fn a_large_object_is_compressed_by_itself() {
    let shelf = shelf(Retain::Compact);
    let large = shelf
        .take(&Arrival::new(&object("large", 1, &json!({ "own": "large ".repeat(20_000) }))))
        .expect("a key");
    assert!(shelf.stats().cold_bytes < 5000, "{:?}", shelf.stats());
    assert_eq!(own(&large).len(), 120_000);
}

/// Returns the number of objects that are kept decoded.
fn hot(held: &[Lazy<ConfigMap>]) -> usize {
    held.iter().filter(|object| object.is_hot()).count()
}

fn list(held: &[Lazy<ConfigMap>]) -> Vec<Arc<ConfigMap>> {
    many::objects(|| held.iter()).expect("they fit")
}

#[test]
fn a_long_list_is_in_order_and_fails_with_its_first_object_that_does_not_decode() {
    let shelf = shelf(Retain::Compact);
    let mut held: Vec<_> = (0..5000).map(|i| take(&shelf, &alike(&i.to_string(), 1, 1))).collect();
    let names: Vec<_> = list(&held).into_iter().map(|object| object.metadata.name.clone()).collect();
    assert_eq!(names, (0..5000).map(|i| Some(i.to_string())).collect::<Vec<_>>());
    for wrong in [4000, 2500] {
        held[wrong] = take(&shelf, &object(&wrong.to_string(), 2, &json!({ "own": 1 })));
    }
    let error = many::objects(|| held.iter()).expect_err("two do not fit").to_string();
    assert!(error.contains("ns/2500"), "{error}");
}

/// Returns objects of which the budget can keep three.
fn more_than_fit() -> Vec<Lazy<ConfigMap>> {
    let one = Core::decoded_bytes::<ConfigMap>(alike("10", 1, 1).len());
    let shelf = shelf(Retain::Budget(3 * one));
    (10..30).map(|name| shelf.take(&Arrival::new(&alike(&name.to_string(), 1, 1))).expect("a key")).collect()
}

#[test]
fn who_lists_again_what_fits_finds_it_decoded() {
    let held = more_than_fit();
    held[0].object().expect("it fits");
    let first = held[0].object().expect("it fits");
    list(&held[..3]);
    assert_eq!(hot(&held), 1, "to be listed once is not enough");
    let listed = list(&held[..3]);
    assert!(Arc::ptr_eq(&listed[0], &first), "it stayed");
    assert_eq!((hot(&held), hot(&held[..3])), (3, 3), "there was room for two more");
    list(&held[3..5]);
    list(&held[3..5]);
    assert_eq!(hot(&held[..3]), 3, "who lists drives nothing out");
    assert!(held.iter().all(|object| object.object().is_ok()));
    assert!(held.iter().all(|object| object.object().is_ok()));
    assert_eq!((hot(&held), held[0].is_hot()), (3, false), "who reads one after another drives out");
}

#[test]
fn of_a_list_that_does_not_fit_nothing_is_kept() {
    let held = more_than_fit();
    held[0].object().expect("it fits");
    let first = held[0].object().expect("it fits");
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&list(&held)[0], &first), "what is kept is used");
    }
    assert_eq!((hot(&held), hot(&held[..1])), (1, 1));
    list(&held[..2]);
    assert_eq!(hot(&held), 1, "lists that did not fit promised nothing");
}

#[test]
fn what_is_read_once_between_two_changes_is_not_kept() {
    let shelf = shelf(Retain::default());
    let mut held: Option<Lazy<ConfigMap>> = None;
    let mut change_and_read = |version, times| {
        let text = alike("a", 1, version);
        let known =
            |_: &Meta| held.as_ref().map_or(Known::Nothing, |held| Known::Other { reads: held.reads() });
        let taken = shelf.take_unless(&Arrival::new(&text), known).expect("a key");
        let before = shelf.stats().decodes;
        (0..times).for_each(|_| assert_eq!(own(&taken), format!("a {version}")));
        held = Some(taken);
        let stats = shelf.stats();
        (stats.decodes - before, stats.hot)
    };
    assert_eq!(change_and_read(1, 1), (1, 0));
    assert_eq!(change_and_read(2, 1), (1, 0));
    assert_eq!(change_and_read(3, 4), (2, 1), "the second read keeps it");
    assert_eq!(change_and_read(4, 4), (1, 1), "as often as that it is likely to be read again");
    assert_eq!(change_and_read(5, 1), (1, 1));
    assert_eq!(change_and_read(6, 1), (1, 0), "it was not");
    assert_eq!(change_and_read(7, 0), (0, 0));
}

/// Adds a new version of an object of about 4 KB.
fn change(shelf: &Shelf<ConfigMap>, name: usize, version: u32, reads: Reads) -> Lazy<ConfigMap> {
    let text = alike(&name.to_string(), 1, version);
    shelf.take_unless(&Arrival::new(&text), |_| Known::Other { reads }).expect("a key")
}

/// Adds a new object.
fn new(shelf: &Shelf<ConfigMap>, name: usize) -> Lazy<ConfigMap> {
    take(shelf, &alike(&name.to_string(), 1, 1))
}

#[test]
fn the_latest_texts_are_not_compressed_and_of_those_that_are_always_read_more() {
    // Half of the budget is as much as new objects may use.
    let shelf = shelf(Retain::Budget(2 * Recent::FRESH));
    let mut held: Vec<_> = (0..6000).map(|name| new(&shelf, name)).collect();
    let text = alike("1000", 1, 1).len();
    let Stats { trainings, cold_bytes: once, .. } = shelf.stats();
    assert_eq!(trainings, 1);
    assert!(once > Recent::FRESH / 2 && once < 6000 * text / 10 + Recent::FRESH, "{once} bytes");
    for (name, held) in held.iter_mut().enumerate() {
        *held = change(&shelf, name, 2, Reads::default());
    }
    let again = shelf.stats().cold_bytes;
    assert!(again < once + Recent::FRESH / 2, "nobody has read them: {again} and {once} bytes");
    assert!(again > Recent::FRESH / 2, "{again} bytes");
    for (name, held) in held.iter_mut().enumerate() {
        *held = change(&shelf, name, 3, Reads::each_time());
    }
    let always = shelf.stats().cold_bytes;
    assert!(
        6000 * text > 2 * Recent::READ && always > again + Recent::READ / 2,
        "{always} and {again} bytes"
    );
    assert!(always < again + Recent::READ + Recent::FRESH, "{always} and {again} bytes");
    assert!(held.iter().enumerate().all(|(name, held)| own(held) == format!("{name} 3")));
}

#[test]
fn half_of_the_budget_is_for_texts_that_have_changed() {
    let (budget, text) = (8 << 20, alike("1000", 1, 1).len());
    let shelf = shelf(Retain::Budget(budget));
    let mut held: Vec<_> = (0..3000).map(|name| new(&shelf, name)).collect();
    let compressed = shelf.stats().cold_bytes;
    for (name, held) in held.iter_mut().enumerate() {
        *held = change(&shelf, name, 2, Reads::default());
    }
    let plain = shelf.stats().cold_bytes - compressed;
    assert!(3000 * text > budget / 2 && plain > budget / 4 && plain < budget / 2, "{plain} bytes");
    assert!(held.iter().enumerate().all(|(name, held)| own(held) == format!("{name} 2")));
    // Objects that are read often use the other half. Dropped objects have returned their part.
    for held in &held {
        (0..2).for_each(|_| drop(own(held)));
    }
    let hot = shelf.stats().hot_bytes;
    assert!(hot > budget / 4 && hot <= budget / 2 + (64 << 10), "{hot} bytes");
    let Holding::Hot(shared) = &shelf.core.holding else { unreachable!("it has a budget") };
    let shared = Arc::clone(shared);
    assert!(shared.lock().lendable() < 64 << 10);
    drop((held, shelf));
    assert_eq!(shared.lock().lendable(), budget / 2);
}

#[test]
fn what_is_behind_is_caught_up_with() {
    let shelf = shelf(Retain::Budget(2 * Recent::FRESH));
    let held: Vec<_> = (0..1000).map(|name| new(&shelf, name)).collect();
    let mut last = change(&shelf, 0, 2, Reads::default());
    let mut version = 2;
    while !shelf.is_behind() {
        version += 1;
        last = change(&shelf, 0, version, Reads::default());
    }
    let before = shelf.stats().cold_bytes;
    shelf.catch_up();
    assert!(!shelf.is_behind());
    let after = shelf.stats().cold_bytes;
    assert_eq!(own(&last), format!("0 {version}"));
    assert!(held.iter().enumerate().all(|(name, held)| own(held) == format!("{name} 1")));
    assert!(after + (8 << 10) < before, "{after} after {before} bytes");
}

#[test]
fn who_asks_for_compact_gets_no_plain_text() {
    let shelf = shelf(Retain::Compact);
    let _held: Vec<_> = (0..1000).map(|name| new(&shelf, name)).collect();
    let before = shelf.stats().cold_bytes;
    // Another version of the object is in the store, and was read.
    let text = alike("0", 1, 2);
    let taken = shelf
        .take_unless(&Arrival::new(&text), |_| Known::Other { reads: Reads::each_time() })
        .expect("a key");
    assert_eq!(own(&taken), "0 2");
    assert!(shelf.stats().cold_bytes < before + 1000);
}

#[test]
fn objects_that_come_and_go_teach_nothing() {
    let shelf = shelf(Retain::Compact);
    let mut last = None;
    for version in 1..3000 {
        last = Some(take(&shelf, &alike("a", 1, version)));
    }
    let stats = shelf.stats();
    assert_eq!((stats.objects, stats.trainings), (1, 0));
    assert_eq!(own(&last.expect("a key")), "a 2999");
}

#[test]
fn managed_fields_are_kept_if_asked_for() {
    let shelf = Shelf::<ConfigMap>::new(&(), Holding::Compact, FULL);
    let object = shelf.take(&Arrival::new(&alike("a", 1, 1))).expect("a key");
    assert_eq!(
        object.object_meta().expect("it has metadata").managed_fields.map(|fields| fields.len()),
        Some(1)
    );
}

#[test]
fn a_state_that_is_held_already_is_taken_in_place_of_the_new_one() {
    let shelf = shelf(Retain::Compact);
    let first = shelf.take(&Arrival::new(&alike("a", 1, 1))).expect("a key");
    let known = |meta: &Meta| match first.meta().same_version(meta) {
        true => Known::Same(first.clone()),
        false => Known::Other { reads: first.reads() },
    };
    assert!(shelf.take_unless(&Arrival::new(&alike("a", 1, 1)), known).expect("a key").ptr_eq(&first));
    assert!(!shelf.take_unless(&Arrival::new(&alike("a", 1, 2)), known).expect("a key").ptr_eq(&first));
}

proptest! {
    /// For every sequence of additions, removals and reads: each handle returns the object it was created with, and the
    /// counters match the existing states.
    #[test]
    fn holds_what_a_plain_map_holds(
        budget in prop_oneof![Just(0usize), Just(3000), Just(9000), Just(1 << 20)],
        steps in prop::collection::vec((0..4u8, 0..6usize, 0..400usize), 1..80),
    ) {
        let shelf = shelf(Retain::Budget(budget));
        let mut model: BTreeMap<usize, (Lazy<ConfigMap>, String)> = BTreeMap::new();
        let mut old = Vec::new();
        for (version, (what, name, size)) in steps.into_iter().enumerate() {
            match what {
                0 => {
                    let text = format!("{version} {}", "x".repeat(size));
                    let version = u32::try_from(version).expect("few steps");
                    let taken = shelf.take(&Arrival::new(&object(&name.to_string(), version, &json!({ "own": text })))).expect("a key");
                    old.extend(model.insert(name, (taken, text)));
                }
                1 => drop(model.remove(&name)),
                2 => {
                    if let Some((object, text)) = model.get(&name) {
                        prop_assert_eq!(&own(object), text);
                    }
                }
                // A replaced state keeps its contents and does not affect its successor.
                _ => {
                    for (object, text) in &old {
                        prop_assert_eq!(&own(object), text);
                    }
                    old.truncate(2);
                }
            }
            let stats = shelf.stats();
            prop_assert!(stats.hot_bytes <= budget, "{:?}", stats);
            prop_assert_eq!(stats.objects, model.len() + old.len());
            prop_assert!(stats.hot <= stats.objects);
        }
        drop((model, old));
        let stats = shelf.stats();
        prop_assert_eq!((stats.objects, stats.hot, stats.hot_bytes, stats.cold_bytes), (0, 0, 0, 0));
    }
}
