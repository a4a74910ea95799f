// Issuing and inspecting mandates, for `svc ap2` and for tests.

export { type Inspection, type InspectOptions, inspectMandates } from './inspect.js'
export { bindingFromExample, type ExampleBinding } from './issue/example-binding.js'
export {
  generateLocalKey,
  type HopInit,
  issueHop,
  type LocalAlgorithm,
  type LocalKey,
  localKeyOf,
  signToken,
} from './issue/local-key.js'
export {
  checkoutToken,
  type Issuance,
  type IssuedBundle,
  issueMandates,
  type MandateShape,
  mandateShapes,
  type Purchase,
} from './issue/mandates.js'
