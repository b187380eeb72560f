//! The rules that operations are under, by the names operators know them by, each with what it asks
//! unless an operator says otherwise.

/// Something a policy decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule(&'static str);

impl Rule {
    /// The name.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// A rule with what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Default {
    /// Its name.
    pub name: &'static str,
    /// What it asks, in the policy language.
    pub check: &'static str,
    /// What an administrator could do by it before, and still can unless only the present defaults
    /// hold: for rules that others refer to.
    pub legacy: Option<&'static str>,
    /// What it is for.
    pub description: &'static str,
    /// The operations under it: method and path. None for rules that others refer to.
    pub operations: &'static [&'static str],
}

/// The rules that others refer to.
pub const BASES: [Default; 5] = [
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
        "Those who may read what belongs to the project that is asked about.",
    ),
    base(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        Some("role:admin"),
        "Administrators, services, and those who may read what belongs to the project.",
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

macro_rules! rules {
    ($($name:ident = $text:literal, $check:ident, $description:literal, [$($operation:literal),+];)+) => {
        /// The rules that operations are under.
        pub mod rule {
            use super::Rule;
            $(
                #[doc = concat!("`", $text, "`: ", $description)]
                pub const $name: Rule = Rule($text);
            )+
        }

        /// The rules that operations are under.
        pub const OPERATIONS: &[Default] = &[$(Default {
            name: $text,
            check: $check,
            legacy: None,
            description: $description,
            operations: &[$($operation),+],
        },)+];
    };
}

rules! {
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
        "Show how much of a provider is taken.", ["GET /resource_providers/{uuid}/usages"];
    USAGES = "placement:usages", ADMIN_OR_PROJECT_READER_OR_SERVICE,
        "Show how much a project, or a user of it, has taken.", ["GET /usages"];
    TRAITS_LIST = "placement:traits:list", ADMIN_OR_SERVICE,
        "List traits.", ["GET /traits"];
    TRAITS_SHOW = "placement:traits:show", ADMIN_OR_SERVICE,
        "Ask whether a trait exists.", ["GET /traits/{name}"];
    TRAITS_UPDATE = "placement:traits:update", ADMIN_OR_SERVICE,
        "Create a trait.", ["PUT /traits/{name}"];
    TRAITS_DELETE = "placement:traits:delete", ADMIN_OR_SERVICE,
        "Delete a trait.", ["DELETE /traits/{name}"];
    PROVIDER_TRAITS_LIST = "placement:resource_providers:traits:list", ADMIN_OR_SERVICE,
        "List the traits of a provider.", ["GET /resource_providers/{uuid}/traits"];
    PROVIDER_TRAITS_UPDATE = "placement:resource_providers:traits:update", ADMIN_OR_SERVICE,
        "Replace the traits of a provider.", ["PUT /resource_providers/{uuid}/traits"];
    PROVIDER_TRAITS_DELETE = "placement:resource_providers:traits:delete", ADMIN_OR_SERVICE,
        "Take all traits from a provider.", ["DELETE /resource_providers/{uuid}/traits"];
    ALLOCATIONS_MANAGE = "placement:allocations:manage", ADMIN_OR_SERVICE,
        "Replace the allocations of several consumers.", ["POST /allocations"];
    ALLOCATIONS_LIST = "placement:allocations:list", ADMIN_OR_SERVICE,
        "Show the allocations of a consumer.", ["GET /allocations/{consumer_uuid}"];
    ALLOCATIONS_UPDATE = "placement:allocations:update", ADMIN_OR_SERVICE,
        "Replace the allocations of a consumer.", ["PUT /allocations/{consumer_uuid}"];
    ALLOCATIONS_DELETE = "placement:allocations:delete", ADMIN_OR_SERVICE,
        "Delete the allocations of a consumer.", ["DELETE /allocations/{consumer_uuid}"];
    PROVIDER_ALLOCATIONS_LIST = "placement:resource_providers:allocations:list", ADMIN_OR_SERVICE,
        "List the allocations from a provider.", ["GET /resource_providers/{uuid}/allocations"];
    CANDIDATES_LIST = "placement:allocation_candidates:list", ADMIN_OR_SERVICE,
        "List allocation candidates.", ["GET /allocation_candidates"];
    RESHAPE = "placement:reshaper:reshape", SERVICE,
        "Move inventories and allocations between providers.", ["POST /reshaper"];
}
