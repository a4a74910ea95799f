// `svc-sdk/core/policy`: loading and validating policies.
export {
  type Diagnostic,
  type EffectivePolicy,
  formatDiagnostic,
  loadPolicy,
  PolicyError,
  type PolicyInput,
  type PolicyLayer,
  type PolicyResult,
} from '@svc/core/policy'
