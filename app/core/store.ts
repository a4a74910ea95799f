// `svc-sdk/core/store`: the life cycle of stores, with deadlines.
export { bindStore, StoreResource } from '@svc/core/store'
