// `svc-sdk/core/store`: the life cycle of stores, with deadlines.
export {
  bindStore,
  type StoreOptions,
  StoreResource,
} from '@svc/core/store'
