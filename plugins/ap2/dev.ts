// Issuing and inspecting mandates, for `svc ap2` and for tests.

export { type Inspection, type InspectOptions, inspectMandates } from './inspect.js'
export { bindingFromExample, type ExampleBinding } from './issue/example-binding.js'
export { type HopInit, issueHop } from './issue/hop.js'
export {
  generateLocalKey,
  type LocalAlgorithm,
  type LocalKey,
  localKeyOf,
  signToken,
} from './issue/local-key.js'
export {
  type Issuance,
  type IssuedBundle,
  issueMandates,
  type MandateShape,
  mandateShapes,
} from './issue/mandates.js'
export { checkoutToken, type Purchase } from './issue/purchase.js'
