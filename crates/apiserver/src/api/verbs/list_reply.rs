//! Responses to lists, in the requested encoding and view.
//!
//! A small response is built at once. A large one is generated while its client reads it, so that each of many clients holds only one
//! chunk, in addition to the snapshot that they share.
//!
//! A protobuf list begins with its length. The objects of a large list are therefore encoded twice: first to determine the length, then to
//! be sent. The length of each object is cached, so that later lists encode only changed objects twice.

use std::iter;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::go;
use kube_apimachinery::protobuf::ListMessage;
use kube_apimachinery::status::ApiError;
use kube_apimachinery::table::{self, IncludeObject};
use kube_apimachinery::yaml;
use serde_json::{Value, json};

use super::Call;
use super::items::Items;
use super::reply::{AT_ONCE, ListMeta, Reply, go_package, partial_metadata};
use crate::kind::registry::ServedKind;
use crate::request::accept::{Accept, Encoding, View};
use crate::response::ResponseBody;
use crate::store::Stored;

/// Size of a chunk of a large response, in bytes.
const CHUNK: usize = 64 << 10;
/// Estimated bytes around the text of an object.
const AROUND_ITEM: usize = 160;

/// Position of an item in its list, which decides whether a separator precedes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    First,
    Later,
}

/// Lists objects of the call's resource.
///
/// # Errors
/// 406 for a view of single objects.
pub(crate) async fn answer(call: &Call, meta: &ListMeta, mut items: Items) -> Result<Reply, ApiError> {
    let form = ListEncoding::of(call)?;
    if form.accept.view == View::Table
        && let Some(order) = call.served.strategy.row_order()
    {
        items = items.sorted_by_key(|stored| order(&call.served.value(stored)));
    }
    let content_type = form.content_type();
    let metadata = meta.to_json(&call.served);
    if form.accept.encoding == Encoding::Yaml
        && let Err(why) = form.check_yaml(items.clone())
    {
        return Ok(Reply::not_encoded(200, why));
    }
    // A protobuf message begins with its length, which is only known when all items are.
    let is_sized = form.message.is_some();
    let (mut out, mut tail) = if is_sized { Default::default() } else { form.frame(&metadata, 0) };
    let begins = out.len();
    out.reserve(items.held_bytes(AROUND_ITEM).min(AT_ONCE + CHUNK) + tail.len());
    let is_all = items.each(|_, stored| {
        let position = if out.len() > begins { Position::Later } else { Position::First };
        form.write(&mut out, stored, position);
        if out.len() < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if out.len() == begins {
        return Ok(Reply::bytes(200, content_type, form.without_items(&metadata)));
    }
    if is_sized {
        let rest = if is_all { 0 } else { form.size_of(items.clone()).await };
        let (head, end) = form.frame(&metadata, out.len() + rest);
        out.splice(..0, head);
        tail = end;
    }
    if is_all {
        out.extend_from_slice(&tail);
        return Ok(Reply::bytes(200, content_type, out));
    }
    out.shrink_to_fit();
    let rest = UnsentItems { form, items, tail: Some(tail) };
    let body = ResponseBody::chunks(iter::once(Bytes::from(out)).chain(rest));
    Ok(Reply { code: 200, content_type, body, retry_after: None })
}

/// Rest of a list that is still to be generated.
struct UnsentItems {
    form: ListEncoding,
    items: Items,
    /// Bytes after the items; `None` once they are written.
    tail: Option<Vec<u8>>,
}

impl Iterator for UnsentItems {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.tail.as_ref()?;
        let mut out = Vec::with_capacity(CHUNK + AROUND_ITEM);
        let is_all = self.items.each(|_, stored| {
            self.form.write(&mut out, stored, Position::Later);
            if out.len() < CHUNK { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if is_all {
            out.extend(self.tail.take()?);
        }
        // Growing for the last object may have doubled the capacity, and a connection queues several chunks.
        out.shrink_to_fit();
        Some(Bytes::from(out))
    }
}

/// Encoding of a list's items, and of the bytes around them.
struct ListEncoding {
    served: Arc<ServedKind>,
    accept: Accept,
    /// Set for protobuf.
    message: Option<ListMessage>,
    /// Key of the cached protobuf length of an object: identifies the served version, and whether only metadata is encoded.
    encoded_as: Option<NonZeroU32>,
    /// Options for the table view.
    table: table::Options,
}

impl ListEncoding {
    fn of(call: &Call) -> Result<Self, ApiError> {
        let (served, mut accept) = (Arc::clone(&call.served), call.accept);
        let list_kind = &served.resource.list_kind;
        let message = match (accept.encoding, accept.view) {
            (_, View::Metadata) => return Err(no_list(&served)),
            (Encoding::Protobuf, View::Object) => ListMessage::of(&served.kind.api_version, list_kind),
            (Encoding::Protobuf, View::MetadataList) => {
                ListMessage::of(accept.meta_api_version(), "PartialObjectMetadataList")
            }
            _ => None,
        };
        if accept.encoding == Encoding::Protobuf && message.is_none() {
            accept.encoding = Encoding::Json;
        }
        let table = call.table_options()?;
        let is_metadata = accept.view == View::MetadataList;
        let encoded_as = u32::try_from(served.id * 2 + u64::from(is_metadata)).ok().and_then(NonZeroU32::new);
        Ok(Self { served, accept, message, encoded_as, table })
    }

    fn content_type(&self) -> &'static str {
        self.accept.encoding.content_type()
    }

    /// Checks that every item can be written as YAML, before the first bytes are sent.
    fn check_yaml(&self, mut items: Items) -> Result<(), &'static str> {
        let mut checked = Ok(());
        items.each(|_, stored| {
            checked = yaml::check_writable(&self.item(stored));
            if checked.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        checked
    }

    /// Returns the bytes before and after items that take `size` bytes.
    fn frame(&self, metadata: &Value, size: usize) -> (Vec<u8>, Vec<u8>) {
        if let Some(message) = &self.message {
            return message.frame(metadata, size);
        }
        let list = self.list();
        let document = self.document(metadata, &json!([]));
        if self.accept.encoding != Encoding::Yaml {
            let mut head = b"{".to_vec();
            for name in ["kind", "apiVersion", "metadata", "columnDefinitions"] {
                if let Some(value) = document.get(name) {
                    head.extend_from_slice(format!("\"{name}\":").as_bytes());
                    go::write_json(&mut head, value);
                    head.push(b',');
                }
            }
            head.extend_from_slice(format!("\"{list}\":[").as_bytes());
            return (head, b"]}\n".to_vec());
        }
        // No other line can equal that of the empty list, because nested content is indented.
        let whole = yaml::write(&document);
        let (head, tail) = whole.split_once(&format!("\n{list}: []\n")).unwrap_or((&whole, ""));
        (format!("{head}\n{list}:\n").into_bytes(), tail.as_bytes().to_vec())
    }

    /// Returns a list without items.
    fn without_items(&self, metadata: &Value) -> Vec<u8> {
        // Go writes a nil slice as null. Empty lists of metadata have one, and empty tables of kinds without columns of their own.
        let has_default_columns =
            || self.served.resource.columns.iter().any(|column| column.name == "Created At");
        let is_nil = match self.accept.view {
            View::MetadataList => true,
            View::Table => has_default_columns(),
            View::Object | View::Metadata => false,
        };
        if self.message.is_none() && (is_nil || self.accept.encoding == Encoding::Yaml) {
            let whole = self.document(metadata, &if is_nil { Value::Null } else { json!([]) });
            let is_yaml = self.accept.encoding == Encoding::Yaml;
            return if is_yaml { yaml::write(&whole) } else { go::json(&whole) + "\n" }.into_bytes();
        }
        let (head, tail) = self.frame(metadata, 0);
        [head, tail].concat()
    }

    /// Returns the name of the field with the items.
    fn list(&self) -> &'static str {
        if self.accept.view == View::Table { "rows" } else { "items" }
    }

    /// Returns the list with these items.
    fn document(&self, metadata: &Value, items: &Value) -> Value {
        match self.accept.view {
            View::Object | View::Metadata => json!({
                "kind": self.served.resource.list_kind, "apiVersion": self.served.kind.api_version,
                "metadata": metadata, "items": items,
            }),
            View::MetadataList => {
                let mut metadata = metadata.clone();
                drop_empty_continue(&mut metadata);
                json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": self.accept.meta_api_version(),
                    "metadata": metadata, "items": items,
                })
            }
            View::Table => {
                let mut table = table::table(&self.served.resource.columns, [], metadata, self.table);
                table["apiVersion"] = json!(self.accept.meta_api_version());
                table["rows"] = items.clone();
                table
            }
        }
    }

    /// Appends an item.
    fn write(&self, out: &mut Vec<u8>, stored: &Stored, position: Position) {
        if let Some(message) = &self.message {
            // The message of a metadata view has no fields for the rest of the object, which is skipped.
            let begins = out.len();
            message.write_item(out, &self.served.text(stored, stored.revision));
            if let Some(form) = self.encoded_as {
                stored.remember_length(form, out.len() - begins);
            }
            return;
        }
        if self.accept.encoding == Encoding::Yaml {
            out.extend_from_slice(yaml::write(&json!([self.item(stored)])).as_bytes());
            return;
        }
        if position == Position::Later {
            out.push(b',');
        }
        if self.accept.view == View::Object && self.served.reads_as_stored(stored) {
            // Items of custom resources contain their kind.
            let kind = self.served.is_custom().then_some(&self.served.kind);
            stored.document.write(out, kind, stored.revision);
        } else {
            go::write_json(out, &self.item(stored));
        }
    }

    /// Returns an item as a tree.
    fn item(&self, stored: &Stored) -> Value {
        let mut object = self.served.value(stored);
        match self.accept.view {
            View::Object | View::Metadata => {
                if !self.served.is_custom()
                    && let Some(fields) = object.as_object_mut()
                {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                object
            }
            View::MetadataList => {
                self.served.hide_version_annotations(&mut object);
                partial_metadata(self.accept, &object)
            }
            View::Table => {
                if self.table.include != IncludeObject::Object {
                    self.served.hide_version_annotations(&mut object);
                }
                let mut row = table::row(&self.served.resource.columns, &object, self.table);
                self.served.print_stored(&mut row, stored, self.table.now);
                row
            }
        }
    }

    /// Returns the protobuf size of the items. Yields after each chunk.
    async fn size_of(&self, mut items: Items) -> usize {
        let mut size = 0;
        let mut item = Vec::new();
        loop {
            let pause = size + CHUNK;
            let is_all = items.each(|_, stored| {
                size += self.encoded_as.and_then(|form| stored.length_in(form)).unwrap_or_else(|| {
                    item.clear();
                    self.write(&mut item, stored, Position::Later);
                    item.len()
                });
                if size < pause { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            if is_all {
                return size;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn drop_empty_continue(metadata: &mut Value) {
    if metadata.get("continue").and_then(Value::as_str) == Some("")
        && let Some(fields) = metadata.as_object_mut()
    {
        fields.remove("continue");
    }
}

/// Builds the 406 for the view of a single object.
pub(super) fn no_list(served: &ServedKind) -> ApiError {
    let kind = if served.is_custom() {
        "*unstructured.UnstructuredList".to_owned()
    } else {
        format!("*{}.{}", go_package(&served.resource.group), served.resource.list_kind)
    };
    let why = format!("you requested PartialObjectMetadata, but the requested object is a list ({kind})");
    ApiError::new(406, "NotAcceptable", why)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::api::verbs::read;
    use crate::testing;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    #[tokio::test]
    async fn the_protobuf_length_of_an_object_is_computed_once_per_form() {
        let server = testing::server();
        let data = "x".repeat(10 << 10);
        for number in 0..40 {
            let map = json!({"metadata": {"name": format!("map-{number:02}")}, "data": {"k": data}});
            testing::create(&server, MAPS, &map).unwrap();
        }
        let mut call = testing::call(&server, MAPS);
        call.accept.encoding = Encoding::Protobuf;
        let list = async |call: &Call| -> Vec<u8> {
            read::list(call).await.unwrap().body.collect().await.unwrap().to_bytes().to_vec()
        };
        let first = list(&call).await;
        let form = ListEncoding::of(&call).unwrap();
        let encoded_as = form.encoded_as.unwrap();
        let snapshot = server.read(|store| store.snapshot(call.served.storage()));
        let objects: Vec<_> = snapshot.range("default", None).map(|(_, stored)| Arc::clone(stored)).collect();
        for stored in &objects {
            let known = stored.length_in(encoded_as);
            let mut item = Vec::new();
            form.write(&mut item, stored, Position::Later);
            assert_eq!(known, Some(item.len()));
        }

        // A wrong length in the cache shows that the cache is used, and that the length of another form is not.
        let last = objects.last().unwrap();
        last.remember_length(encoded_as, last.length_in(encoded_as).unwrap() + 1);
        let second = list(&call).await;
        let different = first.iter().zip(&second).filter(|(one, other)| one != other).count();
        assert_eq!((second.len(), different), (first.len(), 1));
        let other = NonZeroU32::new(encoded_as.get() + 1).unwrap();
        last.remember_length(other, 1);
        assert!(list(&call).await == first);
    }
}
