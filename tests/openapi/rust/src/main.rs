//! The generated client against a running Berth: `berth-client PLACEMENT_URL PLANNER_URL`.

mod berth;

use berth::{
    AllocationCandidatesListRequest, AllocationCandidatesListRequestHeader,
    AllocationCandidatesListRequestQuery, AllocationRequestBody2, AllocationsDeleteRequest,
    AllocationsDeleteRequestHeader, AllocationsDeleteRequestPath, AllocationsReplaceBody112,
    AllocationsReplaceRequest, AllocationsReplaceRequestHeader, AllocationsReplaceRequestPath,
    AllocationsShowRequest, AllocationsShowRequestHeader, AllocationsShowRequestPath, ApiResponse,
    BerthClient, ErrorsOrString, InventoriesReplaceBody, InventoriesReplaceRequest,
    InventoriesReplaceRequestHeader, InventoriesReplaceRequestPath, PlannerStatusShowRequest,
    ResourceProviderRequestBody, ResourceProvidersCreateBody114, ResourceProvidersCreateRequest,
    ResourceProvidersCreateRequestHeader, ResourceProvidersDeleteRequest,
    ResourceProvidersDeleteRequestHeader, ResourceProvidersDeleteRequestPath,
};
use serde_json::json;
use uuid::{Uuid, uuid};

const HOST: Uuid = uuid!("a5500000-0000-4000-8000-00000000000b");
const CONSUMER: &str = "c0500000-0000-4000-8000-00000000000b";

fn version() -> Option<String> {
    Some("placement 1.39".to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut urls = std::env::args().skip(1);
    let mut client =
        || anyhow::Ok(BerthClient::with_base_url(urls.next().expect("a URL"))?.with_token("admin"));
    let (placement, planner) = (client()?, client()?);

    let create = ResourceProvidersCreateRequest {
        header: ResourceProvidersCreateRequestHeader { open_stack_api_version: version() },
        body: ResourceProviderRequestBody::Body114(ResourceProvidersCreateBody114 {
            name: "rust".to_owned(),
            uuid: Some(HOST),
            ..Default::default()
        }),
    };
    let ApiResponse::Ok(Some(created)) = placement.resource_providers_create(create.clone()).await?
    else {
        panic!("the provider is not created")
    };
    assert_eq!((created.uuid, created.root_provider_uuid), (HOST, Some(HOST)));
    let again = placement.resource_providers_create(create).await?;
    let ApiResponse::Unknown(status, ErrorsOrString::Errors(errors)) = again else {
        panic!("the provider is created again")
    };
    assert_eq!((status.as_u16(), errors.errors[0].status), (409, 409));

    let inventories = InventoriesReplaceRequest {
        path: InventoriesReplaceRequestPath { uuid: HOST },
        header: InventoriesReplaceRequestHeader { open_stack_api_version: version() },
        body: InventoriesReplaceBody {
            resource_provider_generation: 0,
            inventories: json!({"VCPU": {"total": 8}}),
        },
    };
    let ApiResponse::Ok(replaced) = placement.inventories_replace(inventories).await? else {
        panic!("the inventories are not replaced")
    };
    assert_eq!(replaced.inventories["VCPU"].total, 8);

    let query = AllocationCandidatesListRequest {
        query: AllocationCandidatesListRequestQuery {
            resources: Some("VCPU:2".to_owned()),
            ..Default::default()
        },
        header: AllocationCandidatesListRequestHeader { open_stack_api_version: version() },
    };
    let ApiResponse::Ok(found) = placement.allocation_candidates_list(query).await? else {
        panic!("there are no candidates")
    };
    assert!(found.provider_summaries.contains_key(&HOST.to_string()));

    let claim = AllocationsReplaceRequest {
        path: AllocationsReplaceRequestPath { consumer: CONSUMER.to_owned() },
        // From 1.28 on, a new consumer needs a member that is null, and the client leaves such members out.
        header: AllocationsReplaceRequestHeader {
            open_stack_api_version: Some("placement 1.27".to_owned()),
        },
        body: AllocationRequestBody2::Body112(AllocationsReplaceBody112 {
            allocations: [(HOST.to_string(), json!({"resources": {"VCPU": 2}}))].into(),
            project_id: "p".to_owned(),
            user_id: "u".to_owned(),
        }),
    };
    let claimed = placement.allocations_replace(claim).await?;
    assert!(matches!(claimed, ApiResponse::NoContent), "the claim is refused");
    let show = AllocationsShowRequest {
        path: AllocationsShowRequestPath { consumer: CONSUMER.to_owned() },
        header: AllocationsShowRequestHeader { open_stack_api_version: version() },
    };
    let ApiResponse::Ok(shown) = placement.allocations_show(show).await? else {
        panic!("the allocations are not shown")
    };
    assert_eq!((shown.consumer_generation, shown.allocations.len()), (Some(1), 1));

    let ApiResponse::Ok(status) = planner.planner_status_show(PlannerStatusShowRequest {}).await?
    else {
        panic!("the planner does not work")
    };
    assert!(status.status.placement.resources.resource_providers >= 1);

    let delete = AllocationsDeleteRequest {
        path: AllocationsDeleteRequestPath { consumer: CONSUMER.to_owned() },
        header: AllocationsDeleteRequestHeader { open_stack_api_version: version() },
    };
    assert!(matches!(placement.allocations_delete(delete).await?, ApiResponse::NoContent));
    let delete = ResourceProvidersDeleteRequest {
        path: ResourceProvidersDeleteRequestPath { uuid: HOST },
        header: ResourceProvidersDeleteRequestHeader { open_stack_api_version: version() },
    };
    assert!(matches!(placement.resource_providers_delete(delete).await?, ApiResponse::NoContent));
    Ok(())
}
