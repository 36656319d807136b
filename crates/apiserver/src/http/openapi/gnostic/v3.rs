//! Messages of `openapi.v3` with the numbers of gnostic's `OpenAPIv3.proto`, limited to those that this server uses.

use serde_json::Value;

use super::MemberEncoding::{Any, Bool, Choice, Double, Each, Integer, Map, MapBut, Text, Wrapped};
use super::{MemberEncoding, Message, field};

pub(super) static DOCUMENT: Message = Message {
    fields: &[
        field(1, "openapi", Text),
        field(2, "info", MemberEncoding::Message(&INFO)),
        field(4, "paths", Map(1, &MemberEncoding::Message(&PATH_ITEM))),
        field(5, "components", MemberEncoding::Message(&COMPONENTS)),
        field(6, "security", Each(&Map(1, &Wrapped(1, &Each(&Text))))),
    ],
    extensions: 9,
};

static INFO: Message =
    Message { fields: &[field(1, "title", Text), field(6, "version", Text)], extensions: 7 };

static COMPONENTS: Message = Message {
    fields: &[
        field(1, "schemas", Map(1, &Choice(schema))),
        field(7, "securitySchemes", Map(1, &Wrapped(1, &MemberEncoding::Message(&SECURITY_SCHEME)))),
    ],
    extensions: 10,
};

static SECURITY_SCHEME: Message = Message {
    fields: &[
        field(1, "type", Text),
        field(2, "description", Text),
        field(3, "name", Text),
        field(4, "in", Text),
    ],
    extensions: 9,
};

static PATH_ITEM: Message = Message {
    fields: &[
        field(4, "get", MemberEncoding::Message(&OPERATION)),
        field(5, "put", MemberEncoding::Message(&OPERATION)),
        field(6, "post", MemberEncoding::Message(&OPERATION)),
        field(7, "delete", MemberEncoding::Message(&OPERATION)),
        field(8, "options", MemberEncoding::Message(&OPERATION)),
        field(9, "head", MemberEncoding::Message(&OPERATION)),
        field(10, "patch", MemberEncoding::Message(&OPERATION)),
        field(13, "parameters", Each(&Wrapped(1, &MemberEncoding::Message(&PARAMETER)))),
    ],
    extensions: 14,
};

static OPERATION: Message = Message {
    fields: &[
        field(1, "tags", Each(&Text)),
        field(3, "description", Text),
        field(5, "operationId", Text),
        field(6, "parameters", Each(&Wrapped(1, &MemberEncoding::Message(&PARAMETER)))),
        field(7, "requestBody", Wrapped(1, &MemberEncoding::Message(&REQUEST_BODY))),
        field(8, "responses", MapBut(1, "default", &RESPONSE, 2, &RESPONSE)),
    ],
    extensions: 13,
};

static PARAMETER: Message = Message {
    fields: &[
        field(1, "name", Text),
        field(2, "in", Text),
        field(3, "description", Text),
        field(4, "required", Bool),
        field(10, "schema", Choice(schema)),
    ],
    extensions: 14,
};

static REQUEST_BODY: Message = Message {
    fields: &[
        field(1, "description", Text),
        field(2, "content", Map(1, &MemberEncoding::Message(&MEDIA_TYPE))),
        field(3, "required", Bool),
    ],
    extensions: 4,
};

static RESPONSE: MemberEncoding = Wrapped(
    1,
    &MemberEncoding::Message(&Message {
        fields: &[
            field(1, "description", Text),
            field(3, "content", Map(1, &MemberEncoding::Message(&MEDIA_TYPE))),
        ],
        extensions: 5,
    }),
);

static MEDIA_TYPE: Message = Message { fields: &[field(1, "schema", Choice(schema))], extensions: 5 };

static REFERENCE: Message =
    Message { fields: &[field(1, "$ref", Text), field(3, "description", Text)], extensions: 0 };

fn schema(value: &Value) -> &'static MemberEncoding {
    static SCHEMA_ITSELF: MemberEncoding = Wrapped(1, &MemberEncoding::Message(&SCHEMA));
    static REFERRED: MemberEncoding = Wrapped(2, &MemberEncoding::Message(&REFERENCE));
    if value.get("$ref").is_some_and(Value::is_string) { &REFERRED } else { &SCHEMA_ITSELF }
}

static SCHEMA: Message = Message {
    fields: &[
        field(1, "nullable", Bool),
        field(6, "externalDocs", MemberEncoding::Message(&EXTERNAL_DOCS)),
        field(7, "example", Any),
        field(9, "title", Text),
        field(10, "multipleOf", Double),
        field(11, "maximum", Double),
        field(12, "exclusiveMaximum", Bool),
        field(13, "minimum", Double),
        field(14, "exclusiveMinimum", Bool),
        field(15, "maxLength", Integer),
        field(16, "minLength", Integer),
        field(17, "pattern", Text),
        field(18, "maxItems", Integer),
        field(19, "minItems", Integer),
        field(20, "uniqueItems", Bool),
        field(21, "maxProperties", Integer),
        field(22, "minProperties", Integer),
        field(23, "required", Each(&Text)),
        field(24, "enum", Each(&Any)),
        field(25, "type", Text),
        field(26, "allOf", Each(&Choice(schema))),
        field(27, "oneOf", Each(&Choice(schema))),
        field(28, "anyOf", Each(&Choice(schema))),
        field(29, "not", MemberEncoding::Message(&SCHEMA)),
        field(30, "items", Wrapped(1, &Choice(schema))),
        field(31, "properties", Map(1, &Choice(schema))),
        field(32, "additionalProperties", Choice(additional_properties)),
        field(33, "default", Choice(default)),
        field(34, "description", Text),
        field(35, "format", Text),
    ],
    extensions: 36,
};

static EXTERNAL_DOCS: Message =
    Message { fields: &[field(1, "description", Text), field(2, "url", Text)], extensions: 3 };

fn additional_properties(value: &Value) -> &'static MemberEncoding {
    static SCHEMA_ITEM: MemberEncoding = Wrapped(1, &Choice(schema));
    static ALLOWED: MemberEncoding = Wrapped(2, &Each(&Bool));
    if value.is_boolean() { &ALLOWED } else { &SCHEMA_ITEM }
}

/// Chooses the message of a default. A default that is no scalar becomes an empty message, because there is no field
/// for it.
fn default(value: &Value) -> &'static MemberEncoding {
    static NUMBER: MemberEncoding = Wrapped(1, &Each(&Double));
    static BOOL: MemberEncoding = Wrapped(2, &Each(&Bool));
    static TEXT: MemberEncoding = Wrapped(3, &Each(&Text));
    match value {
        Value::Number(_) => &NUMBER,
        Value::Bool(_) => &BOOL,
        _ => &TEXT,
    }
}
