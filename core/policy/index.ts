// Loading a policy and building its pipeline: for those who host one.
export { checkOrder, defaultOrder, type OrderMistake } from '../plugin/order.js'
export { formatDiagnostic, PolicyError } from './diagnostic.js'
export { policySchema } from './json-schema.js'
export { loadPolicy, pluginUses } from './load.js'
export { notAvailable, notYet } from './not-yet.js'
export { type KeyReference, keysReference } from './reference.js'
export { nearest } from './spelling.js'
export type {
  Diagnostic,
  EffectivePolicy,
  PluginUse,
  PolicyInput,
  PolicyLayer,
  PolicyResult,
} from './types.js'
