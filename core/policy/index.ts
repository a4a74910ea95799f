// Loads and validates policies, for programs that host a pipeline.
export { checkOrder, defaultOrder } from '../plugin/order.js'
export {
  describeDiagnostic,
  formatDiagnostic,
  mistakeAt,
  PolicyError,
  sortedByPosition,
} from './diagnostic.js'
export {
  isPolicyText,
  type Locate,
  literalSecret,
  locateInText,
  policyValue,
  readDocument,
} from './document.js'
export { PolicyText } from './edit.js'
export {
  headerNameSchema,
  httpUrlSchema,
  isKeyReference,
  keyRefSchema,
  patternSchema,
  patternsSchema,
  secureUrlError,
} from './fields.js'
export { policySchema } from './json-schema.js'
export { keysReference } from './keys-reference.js'
export { loadHost, loadPolicy, pluginUses } from './load.js'
export { nearest, nearestWords, unknownServer, unknownServers } from './spelling.js'
export type {
  Diagnostic,
  EffectivePolicy,
  HostResult,
  PluginUse,
  PolicyInput,
  PolicyLayer,
  PolicyResult,
} from './types.js'
export { patternsOf, type WrittenPattern } from './written-patterns.js'
