//! Messages of `openapi.v2` with the numbers of gnostic's `OpenAPIv2.proto`, limited to those that this server uses.

use serde_json::Value;

use super::MemberEncoding::{Any, Bool, Choice, Double, Each, Integer, Map, Text, Wrapped};
use super::{MemberEncoding, Message, field};

pub(super) static DOCUMENT: Message = Message {
    fields: &[
        field(1, "swagger", Text),
        field(2, "info", MemberEncoding::Message(&INFO)),
        field(8, "paths", Map(2, &MemberEncoding::Message(&PATH_ITEM))),
        field(9, "definitions", Map(1, &MemberEncoding::Message(&SCHEMA))),
        field(10, "parameters", Map(1, &Choice(parameter))),
        field(12, "security", Each(&Map(1, &Wrapped(1, &Each(&Text))))),
        field(13, "securityDefinitions", Map(1, &Wrapped(2, &MemberEncoding::Message(&API_KEY)))),
    ],
    extensions: 16,
};

static INFO: Message =
    Message { fields: &[field(1, "title", Text), field(2, "version", Text)], extensions: 7 };

static API_KEY: Message = Message {
    fields: &[
        field(1, "type", Text),
        field(2, "name", Text),
        field(3, "in", Text),
        field(4, "description", Text),
    ],
    extensions: 5,
};

static PATH_ITEM: Message = Message {
    fields: &[
        field(2, "get", MemberEncoding::Message(&OPERATION)),
        field(3, "put", MemberEncoding::Message(&OPERATION)),
        field(4, "post", MemberEncoding::Message(&OPERATION)),
        field(5, "delete", MemberEncoding::Message(&OPERATION)),
        field(6, "options", MemberEncoding::Message(&OPERATION)),
        field(7, "head", MemberEncoding::Message(&OPERATION)),
        field(8, "patch", MemberEncoding::Message(&OPERATION)),
        field(9, "parameters", Each(&Choice(parameter_or_reference))),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        field(1, "tags", Each(&Text)),
        field(3, "description", Text),
        field(5, "operationId", Text),
        field(6, "produces", Each(&Text)),
        field(7, "consumes", Each(&Text)),
        field(8, "parameters", Each(&Choice(parameter_or_reference))),
        field(9, "responses", Map(1, &Wrapped(1, &MemberEncoding::Message(&RESPONSE)))),
        field(10, "schemes", Each(&Text)),
    ],
    extensions: 13,
};

static RESPONSE: Message = Message {
    fields: &[
        field(1, "description", Text),
        field(2, "schema", Wrapped(1, &MemberEncoding::Message(&SCHEMA))),
    ],
    extensions: 5,
};

static JSON_REFERENCE: Message =
    Message { fields: &[field(1, "$ref", Text), field(2, "description", Text)], extensions: 0 };

/// Chooses between the two forms of an operation's parameter: a parameter or a reference to one.
fn parameter_or_reference(value: &Value) -> &'static MemberEncoding {
    static PARAMETER: MemberEncoding = Wrapped(1, &Choice(parameter));
    static REFERENCE: MemberEncoding = Wrapped(2, &MemberEncoding::Message(&JSON_REFERENCE));
    if value.get("$ref").is_some() { &REFERENCE } else { &PARAMETER }
}

/// Chooses the message of a parameter: body, query or path.
fn parameter(value: &Value) -> &'static MemberEncoding {
    static BODY: MemberEncoding = Wrapped(1, &MemberEncoding::Message(&BODY_PARAMETER));
    static QUERY: MemberEncoding = Wrapped(2, &Wrapped(3, &MemberEncoding::Message(&QUERY_PARAMETER)));
    static PATH: MemberEncoding = Wrapped(2, &Wrapped(4, &MemberEncoding::Message(&PATH_PARAMETER)));
    match value["in"].as_str() {
        Some("body") => &BODY,
        Some("path") => &PATH,
        _ => &QUERY,
    }
}

static BODY_PARAMETER: Message = Message {
    fields: &[
        field(1, "description", Text),
        field(2, "name", Text),
        field(3, "in", Text),
        field(4, "required", Bool),
        field(5, "schema", MemberEncoding::Message(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        field(1, "required", Bool),
        field(2, "in", Text),
        field(3, "description", Text),
        field(4, "name", Text),
        field(6, "type", Text),
        field(20, "uniqueItems", Bool),
    ],
    extensions: 23,
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        field(1, "required", Bool),
        field(2, "in", Text),
        field(3, "description", Text),
        field(4, "name", Text),
        field(5, "type", Text),
        field(19, "uniqueItems", Bool),
    ],
    extensions: 22,
};

static SCHEMA: Message = Message {
    fields: &[
        field(1, "$ref", Text),
        field(2, "format", Text),
        field(3, "title", Text),
        field(4, "description", Text),
        field(5, "default", Any),
        field(6, "multipleOf", Double),
        field(7, "maximum", Double),
        field(8, "exclusiveMaximum", Bool),
        field(9, "minimum", Double),
        field(10, "exclusiveMinimum", Bool),
        field(11, "maxLength", Integer),
        field(12, "minLength", Integer),
        field(13, "pattern", Text),
        field(14, "maxItems", Integer),
        field(15, "minItems", Integer),
        field(16, "uniqueItems", Bool),
        field(17, "maxProperties", Integer),
        field(18, "minProperties", Integer),
        field(19, "required", Each(&Text)),
        field(20, "enum", Each(&Any)),
        field(21, "additionalProperties", Choice(additional_properties)),
        field(22, "type", Wrapped(1, &Each(&Text))),
        field(23, "items", Wrapped(1, &MemberEncoding::Message(&SCHEMA))),
        field(24, "allOf", Each(&MemberEncoding::Message(&SCHEMA))),
        field(25, "properties", Map(1, &MemberEncoding::Message(&SCHEMA))),
        field(29, "externalDocs", MemberEncoding::Message(&EXTERNAL_DOCS)),
        field(30, "example", Any),
    ],
    extensions: 31,
};

static EXTERNAL_DOCS: Message =
    Message { fields: &[field(1, "description", Text), field(2, "url", Text)], extensions: 3 };

fn additional_properties(value: &Value) -> &'static MemberEncoding {
    static SCHEMA_ITEM: MemberEncoding = Wrapped(1, &MemberEncoding::Message(&SCHEMA));
    static ALLOWED: MemberEncoding = Wrapped(2, &Each(&Bool));
    if value.is_boolean() { &ALLOWED } else { &SCHEMA_ITEM }
}
