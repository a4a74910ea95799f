// A section as someone would write it, for the conformance suite.
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: { allow_versions: { billing: ['1.*'] }, limits: { max_payload_kb: 1 } },
}
