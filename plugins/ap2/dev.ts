// Issues and inspects mandates, for `svc ap2` and for tests.

export { type Inspection, inspectMandates } from './inspect.js'
export { bindingFromExample } from './issue/example-binding.js'
export {
  generateLocalKey,
  type HopInit,
  issueHop,
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
