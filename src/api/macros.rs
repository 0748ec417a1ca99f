//! How tools are declared: the attributes of their inputs and outputs, and the trait behind a group of tools.
//! The attributes also give ids and times of other crates their schema.

use macro_rules_attribute::attribute_alias;

attribute_alias! {
    #[apply(foreign)] =
        #[serde_with::apply(
            ProjectId => #[schemars(with = "crate::api::args::Id")],
            RepoId => #[schemars(with = "crate::api::args::Id")],
            TaskId => #[schemars(with = "crate::api::args::TaskName")],
            AttemptId => #[schemars(with = "crate::api::args::Id")],
            SessionId => #[schemars(with = "crate::api::args::Id")],
            ProcessId => #[schemars(with = "crate::api::args::Id")],
            QueueId => #[schemars(with = "crate::api::args::Id")],
            ApprovalId => #[schemars(with = "crate::api::args::Id")],
            TicketId => #[schemars(with = "crate::api::args::Id")],
            FinishId => #[schemars(with = "crate::api::args::Id")],
            Option<ProjectId> => #[schemars(with = "Option<crate::api::args::Id>")],
            Option<ApprovalId> => #[schemars(with = "Option<crate::api::args::Id>")],
            Option<AttemptId> => #[schemars(with = "Option<crate::api::args::Id>")],
            Option<SessionId> => #[schemars(with = "Option<crate::api::args::Id>")],
            Option<ProcessId> => #[schemars(with = "Option<crate::api::args::Id>")],
            Vec<RepoId> => #[schemars(with = "Vec<crate::api::args::Id>")],
            Vec<TaskId> => #[schemars(with = "Vec<crate::api::args::Id>")],
            Timestamp => #[schemars(with = "crate::api::args::Time")],
            Option<Timestamp> => #[schemars(with = "Option<crate::api::args::Time>")],
            Worktree => #[schemars(with = "serde_json::Value")],
            ApprovalStatus => #[schemars(with = "crate::api::args::ApprovalStatuses")],
            AttemptState => #[schemars(with = "crate::api::args::States")],
            Channel => #[schemars(with = "crate::api::args::Channels")],
            FinishAction => #[schemars(with = "crate::api::args::FinishActions")],
            FinishState => #[schemars(with = "crate::api::args::FinishStates")],
            FollowUpMode => #[schemars(with = "crate::api::args::FollowUpActions")],
            Priority => #[schemars(with = "crate::api::args::Priorities")],
            Option<Priority> => #[schemars(with = "Option<crate::api::args::Priorities>")],
            TaskStatus => #[schemars(with = "crate::api::args::TaskStatuses")],
            Option<TaskStatus> => #[schemars(with = "Option<crate::api::args::TaskStatuses>")],
        )];

    // The input of a tool: it takes no other fields, and requires no flag and no limit.
    #[apply(input)] =
        #[apply(foreign)]
        #[serde_with::apply(bool => #[serde(default)], Limit => #[serde(default)])]
        #[apply(data)]
        #[serde(deny_unknown_fields)];

    // The same with the camelCase of the worker API, except for `project_id`.
    #[apply(camel_input)] =
        #[apply(foreign)]
        #[serde_with::apply(Option<ProjectName> => #[serde(rename = "project_id")])]
        #[apply(data)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)];

    // The output of a tool.
    #[apply(output)] =
        #[apply(foreign)]
        #[serde_with::apply(
            Vec<LateAnswer> => #[serde(default, skip_serializing_if = "Vec::is_empty")],
        )]
        #[apply(data)];

    // The same with the camelCase of the worker API; what is `None` is left out.
    #[apply(camel_output)] =
        #[serde_with::apply(Option<_> => #[serde(skip_serializing_if = "Option::is_none")])]
        #[apply(output)]
        #[serde(rename_all = "camelCase")];

    // A type with one of several shapes, or without a case of its own.
    #[apply(data)] =
        #[derive(Clone, Debug, PartialEq)]
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)];

    // An enum whose variants are one word in JSON each.
    #[apply(word)] =
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")];

    // The same with hyphens between the parts of a word.
    #[apply(hyphened_word)] =
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(rename_all = "kebab-case")];
}

/// The trait behind a group of tools: the input and output of each tool, and whether it reads or changes
/// something. A changing tool has a key, and answers each key once.
macro_rules! tools {
    ($group:ident: $($tools:tt)*) => {
        tools!(@ [pub trait $group] [] $($tools)*);
    };
    (@ $head:tt [$($method:tt)*] read $name:ident($input:ty) -> $output:ty; $($rest:tt)*) => {
        tools!(@ $head [
            $($method)*
            async fn $name(
                &self,
                caller: &crate::api::Caller,
                input: $input,
            ) -> crate::api::Refusable<$output>;
        ] $($rest)*);
    };
    (@ $head:tt [$($method:tt)*] change $name:ident($input:ty) -> $output:ty; $($rest:tt)*) => {
        tools!(@ $head [
            $($method)*
            async fn $name(
                &self,
                caller: &crate::api::Caller,
                key: Option<crate::api::Key>,
                input: $input,
            ) -> crate::api::Refusable<crate::api::Idempotent<$output>>;
        ] $($rest)*);
    };
    // Other methods follow the tools, unchanged.
    (@ [$($head:tt)*] [$($method:tt)*] $($rest:tt)*) => {
        #[async_trait::async_trait]
        $($head)*: Send + Sync {
            $($method)*
            $($rest)*
        }
    };
}

/// Gives a type its schema, which is written out wherever the type is used.
macro_rules! schema {
    ([$($generic:tt)*] $type:ty, |$generator:tt| $schema:expr) => {
        impl<$($generic)*> schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                std::any::type_name::<Self>().into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}
