//! The rules of all operations with their defaults. Rules of the Placement API have the reference's names.

/// The name of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule(&'static str);

impl Rule {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// A rule with its default and its purpose.
#[derive(Clone, Copy, Debug)]
pub struct Default {
    /// Its name.
    pub name: &'static str,
    /// Its default expression, in the policy language.
    pub check: &'static str,
    /// The former default of a rule to which others refer. It also applies unless only the present defaults
    /// do.
    pub legacy: Option<&'static str>,
    /// Its purpose.
    pub description: &'static str,
    /// Its operations: method and path. None for rules to which others refer.
    pub operations: &'static [&'static str],
}

/// The rules to which others refer.
pub const BASES: [Default; 6] = [
    base("admin_api", "role:admin", None, "Administrators."),
    base("service_api", "role:service", Some("role:admin"), "Services of the cloud."),
    base(
        "admin_or_service_api",
        "role:admin or role:service",
        Some("role:admin"),
        "Administrators, and services of the cloud.",
    ),
    base(
        "project_reader_api",
        "role:reader and project_id:%(project_id)s",
        Some("role:admin"),
        "Callers who may read what belongs to the project of the request.",
    ),
    base(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        Some("role:admin"),
        "Administrators, services, and callers who may read what belongs to the project.",
    ),
    base(
        "project_member_api",
        "role:member and project_id:%(project_id)s",
        None,
        "Callers who may change what belongs to the project, such as its plans.",
    ),
];

const fn base(
    name: &'static str,
    check: &'static str,
    legacy: Option<&'static str>,
    description: &'static str,
) -> Default {
    Default { name, check, legacy, description, operations: &[] }
}

const ADMIN_OR_SERVICE: &str = "rule:admin_or_service_api";
const SERVICE: &str = "rule:service_api";
const ADMIN_OR_PROJECT_READER_OR_SERVICE: &str = "rule:admin_or_project_reader_or_service_api";

const PROJECT_MEMBER: &str = "rule:admin_or_service_api or rule:project_member_api";
const PROJECT_READER: &str =
    "rule:admin_or_project_reader_or_service_api or rule:project_member_api";

macro_rules! rules {
    ($(#[$about:meta])+ $module:ident, $list:ident;
     $($name:ident = $text:literal, $check:ident, $description:literal, [$($operation:literal),*];)+) => {
        $(#[$about])+
        pub mod $module {
            use crate::auth::policy::defaults::Rule;
            $(
                #[doc = concat!("`", $text, "`: ", $description)]
                pub const $name: Rule = Rule($text);
            )+
        }

        $(#[$about])+
        pub const $list: &[Default] = &[$(Default {
            name: $text,
            check: $check,
            legacy: None,
            description: $description,
            operations: &[$($operation),*],
        },)+];
    };
}

rules! {
    /// The rules of the Placement API's operations.
    rule, OPERATIONS;
    PROVIDERS_LIST = "placement:resource_providers:list", ADMIN_OR_SERVICE,
        "List resource providers.", ["GET /resource_providers"];
    PROVIDERS_CREATE = "placement:resource_providers:create", ADMIN_OR_SERVICE,
        "Create a resource provider.", ["POST /resource_providers"];
    PROVIDERS_SHOW = "placement:resource_providers:show", ADMIN_OR_SERVICE,
        "Show a resource provider.", ["GET /resource_providers/{uuid}"];
    PROVIDERS_UPDATE = "placement:resource_providers:update", ADMIN_OR_SERVICE,
        "Rename or move a resource provider.", ["PUT /resource_providers/{uuid}"];
    PROVIDERS_DELETE = "placement:resource_providers:delete", ADMIN_OR_SERVICE,
        "Delete a resource provider.", ["DELETE /resource_providers/{uuid}"];
    CLASSES_LIST = "placement:resource_classes:list", ADMIN_OR_SERVICE,
        "List resource classes.", ["GET /resource_classes"];
    CLASSES_CREATE = "placement:resource_classes:create", ADMIN_OR_SERVICE,
        "Create a resource class.", ["POST /resource_classes"];
    CLASSES_SHOW = "placement:resource_classes:show", ADMIN_OR_SERVICE,
        "Show a resource class.", ["GET /resource_classes/{name}"];
    CLASSES_UPDATE = "placement:resource_classes:update", ADMIN_OR_SERVICE,
        "Create or rename a resource class.", ["PUT /resource_classes/{name}"];
    CLASSES_DELETE = "placement:resource_classes:delete", ADMIN_OR_SERVICE,
        "Delete a resource class.", ["DELETE /resource_classes/{name}"];
    INVENTORIES_LIST = "placement:resource_providers:inventories:list", ADMIN_OR_SERVICE,
        "List the inventories of a provider.", ["GET /resource_providers/{uuid}/inventories"];
    INVENTORIES_CREATE = "placement:resource_providers:inventories:create", ADMIN_OR_SERVICE,
        "Add an inventory to a provider.", ["POST /resource_providers/{uuid}/inventories"];
    INVENTORIES_SHOW = "placement:resource_providers:inventories:show", ADMIN_OR_SERVICE,
        "Show an inventory of a provider.",
        ["GET /resource_providers/{uuid}/inventories/{resource_class}"];
    INVENTORIES_UPDATE = "placement:resource_providers:inventories:update", ADMIN_OR_SERVICE,
        "Replace one inventory of a provider, or all of them.",
        ["PUT /resource_providers/{uuid}/inventories",
         "PUT /resource_providers/{uuid}/inventories/{resource_class}"];
    INVENTORIES_DELETE = "placement:resource_providers:inventories:delete", ADMIN_OR_SERVICE,
        "Delete one inventory of a provider, or all of them.",
        ["DELETE /resource_providers/{uuid}/inventories",
         "DELETE /resource_providers/{uuid}/inventories/{resource_class}"];
    AGGREGATES_LIST = "placement:resource_providers:aggregates:list", ADMIN_OR_SERVICE,
        "List the aggregates of a provider.", ["GET /resource_providers/{uuid}/aggregates"];
    AGGREGATES_UPDATE = "placement:resource_providers:aggregates:update", ADMIN_OR_SERVICE,
        "Replace the aggregates of a provider.", ["PUT /resource_providers/{uuid}/aggregates"];
    PROVIDER_USAGES = "placement:resource_providers:usages", ADMIN_OR_SERVICE,
        "Show the usage of a provider.", ["GET /resource_providers/{uuid}/usages"];
    USAGES = "placement:usages", ADMIN_OR_PROJECT_READER_OR_SERVICE,
        "Show the usage of a project, or of one of its users.", ["GET /usages"];
    TRAITS_LIST = "placement:traits:list", ADMIN_OR_SERVICE,
        "List traits.", ["GET /traits"];
    TRAITS_SHOW = "placement:traits:show", ADMIN_OR_SERVICE,
        "Check whether a trait exists.", ["GET /traits/{name}"];
    TRAITS_UPDATE = "placement:traits:update", ADMIN_OR_SERVICE,
        "Create a trait.", ["PUT /traits/{name}"];
    TRAITS_DELETE = "placement:traits:delete", ADMIN_OR_SERVICE,
        "Delete a trait.", ["DELETE /traits/{name}"];
    PROVIDER_TRAITS_LIST = "placement:resource_providers:traits:list", ADMIN_OR_SERVICE,
        "List the traits of a provider.", ["GET /resource_providers/{uuid}/traits"];
    PROVIDER_TRAITS_UPDATE = "placement:resource_providers:traits:update", ADMIN_OR_SERVICE,
        "Replace the traits of a provider.", ["PUT /resource_providers/{uuid}/traits"];
    PROVIDER_TRAITS_DELETE = "placement:resource_providers:traits:delete", ADMIN_OR_SERVICE,
        "Remove all traits of a provider.", ["DELETE /resource_providers/{uuid}/traits"];
    ALLOCATIONS_MANAGE = "placement:allocations:manage", ADMIN_OR_SERVICE,
        "Replace the allocations of several consumers.", ["POST /allocations"];
    ALLOCATIONS_LIST = "placement:allocations:list", ADMIN_OR_SERVICE,
        "Show the allocations of a consumer.", ["GET /allocations/{consumer_uuid}"];
    ALLOCATIONS_UPDATE = "placement:allocations:update", ADMIN_OR_SERVICE,
        "Replace the allocations of a consumer.", ["PUT /allocations/{consumer_uuid}"];
    ALLOCATIONS_DELETE = "placement:allocations:delete", ADMIN_OR_SERVICE,
        "Delete the allocations of a consumer.", ["DELETE /allocations/{consumer_uuid}"];
    PROVIDER_ALLOCATIONS_LIST = "placement:resource_providers:allocations:list", ADMIN_OR_SERVICE,
        "List the allocations on a provider.", ["GET /resource_providers/{uuid}/allocations"];
    CANDIDATES_LIST = "placement:allocation_candidates:list", ADMIN_OR_SERVICE,
        "List allocation candidates.", ["GET /allocation_candidates"];
    RESHAPE = "placement:reshaper:reshape", SERVICE,
        "Move inventories and allocations between providers.", ["POST /reshaper"];
}

rules! {
    /// The rules of the planner's operations, and of access to other projects.
    planning, PLANNING;
    ALL_PROJECTS_READ = "planner:all_projects:read", ADMIN_OR_SERVICE,
        "Apply the rules below that read plans and placements to all projects, not only the caller's.", [];
    ALL_PROJECTS_WRITE = "planner:all_projects:write", ADMIN_OR_SERVICE,
        "Apply the rules below that change plans and placements to all projects, not only the \
         caller's.", [];
    GROUPS_LIST = "planner:groups:list", ADMIN_OR_SERVICE,
        "List groups.", ["GET /v1/groups"];
    GROUPS_CREATE = "planner:groups:create", ADMIN_OR_SERVICE,
        "Create a group.", ["POST /v1/groups"];
    GROUPS_SHOW = "planner:groups:show", ADMIN_OR_SERVICE,
        "Show a group.", ["GET /v1/groups/{group}"];
    GROUPS_UPDATE = "planner:groups:update", ADMIN_OR_SERVICE,
        "Change the description of a group.", ["PUT /v1/groups/{group}"];
    GROUPS_DELETE = "planner:groups:delete", ADMIN_OR_SERVICE,
        "Delete a group.", ["DELETE /v1/groups/{group}"];
    MEMBERS_SHOW = "planner:groups:members:show", ADMIN_OR_SERVICE,
        "Check whether a project is a member of a group.",
        ["GET /v1/groups/{group}/members/{member}"];
    MEMBERS_ADD = "planner:groups:members:add", ADMIN_OR_SERVICE,
        "Add members to a group.", ["PUT /v1/groups/{group}/members"];
    MEMBERS_REMOVE = "planner:groups:members:remove", ADMIN_OR_SERVICE,
        "Remove one member of a group, or all of them.",
        ["DELETE /v1/groups/{group}/members", "DELETE /v1/groups/{group}/members/{member}"];
    PLACEMENTS_LIST = "planner:placements:list", PROJECT_READER,
        "List placements.", ["GET /v1/placements"];
    PLACEMENTS_SHOW = "planner:placements:show", PROJECT_READER,
        "Show a placement.", ["GET /v1/placements/{placement}"];
    PLACEMENTS_RECOMMEND = "planner:placements:recommend", PROJECT_MEMBER,
        "Recommend another host for an existing server.", ["POST /v1/placements"];
    PLACEMENTS_RESERVE = "planner:placements:reserve", PROJECT_MEMBER,
        "Reserve a placement, or plan it again.", ["POST /v1/placements/{placement}"];
    PLACEMENTS_DELETE = "planner:placements:delete", PROJECT_MEMBER,
        "Delete a placement.", ["DELETE /v1/placements/{placement}"];
    PLANS_LIST = "planner:plans:list", PROJECT_READER,
        "List plans.", ["GET /v1/plans"];
    PLANS_CREATE = "planner:plans:create", PROJECT_MEMBER,
        "Create a plan, or try it with a dry run.", ["POST /v1/plans"];
    PLANS_SHOW = "planner:plans:show", PROJECT_READER,
        "Show a plan.", ["GET /v1/plans/{plan}"];
    PLANS_UPDATE = "planner:plans:update", PROJECT_MEMBER,
        "Update the resources of a plan.", ["PUT /v1/plans/{plan}"];
    PLANS_MIGRATE = "planner:plans:migrate", ADMIN_OR_SERVICE,
        "Move a server of a plan to another host.", ["PUT /v1/plans/{plan} (action: migrate)"];
    PLANS_DELETE = "planner:plans:delete", PROJECT_MEMBER,
        "Delete a plan.", ["DELETE /v1/plans/{plan}"];
    RESOURCES_LIST = "planner:resources:list", ADMIN_OR_SERVICE,
        "List misplaced servers.", ["GET /v1/resources"];
    STATUS_SHOW = "planner:status:show", PROJECT_READER,
        "Show the status of the planner.", ["HEAD /v1/status", "GET /v1/status"];
}

rules! {
    /// The rules of operations below `/-/`.
    operator, OPERATOR;
    CANDIDATES = "berth:allocation_candidates:list", ADMIN_OR_SERVICE,
        "List allocation candidates in an order of the caller's choice.",
        ["GET /-/v1/allocation_candidates"];
    EXPLAIN = "berth:explain:show", ADMIN_OR_SERVICE,
        "Explain a query for allocation candidates, or a claim.",
        ["GET /-/v1/explain", "POST /-/v1/explain"];
    PROVIDERS = "berth:providers:list", ADMIN_OR_SERVICE,
        "Read many resource providers at once, with what each has.", ["GET /-/v1/providers"];
    CONSUMERS = "berth:consumers:list", ADMIN_OR_SERVICE,
        "Read many consumers at once, with what each holds.",
        ["GET /-/v1/consumers", "POST /-/v1/allocations/get"];
    REFUSED = "berth:refused:show", ADMIN_OR_SERVICE,
        "Show requests that were refused or found nothing, of all projects.",
        ["GET /-/v1/refused", "GET /-/v1/refused/{request_id}"];
    MEMBERS = "berth:members:list", ADMIN_OR_SERVICE,
        "List the replicas.", ["GET /-/v1/members"];
    OPTIONS = "berth:options:show", ADMIN_OR_SERVICE,
        "Show the options of a replica, without secrets.", ["GET /-/v1/options"];
    FIT = "berth:fit:show", ADMIN_OR_SERVICE,
        "Count how many more of a request fit.", ["GET /-/v1/fit"];
    FRAGMENTATION = "berth:fragmentation:show", ADMIN_OR_SERVICE,
        "Find what is free, but of no use.", ["GET /-/v1/fragmentation"];
    MOVES = "berth:moves:show", ADMIN_OR_SERVICE,
        "Find the fewest consumers to move so that a request fits.", ["GET /-/v1/moves"];
    RELOCATE = "berth:relocate", ADMIN_OR_SERVICE,
        "Find the fewest moves that empty hosts or make room, and carry them out.",
        ["POST /-/v1/drain", "POST /-/v1/rebalance"];
    EVENTS = "berth:events:show", ADMIN_OR_SERVICE,
        "Follow the changes of providers, consumers, traits and resource classes.",
        ["GET /-/v1/events"];
}

/// The prefixes of the names of all operations' rules.
const PREFIXES: [&str; 3] = ["placement:", "planner:", "berth:"];

/// Returns whether a name is reserved for rules of operations.
pub fn is_for_operations(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the rules of the operations of all APIs.
pub fn operations() -> impl Iterator<Item = &'static Default> {
    OPERATIONS.iter().chain(PLANNING).chain(OPERATOR)
}
