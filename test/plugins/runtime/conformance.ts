// A section as someone would write it, for the conformance suite.
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: { enforcement: { mode: 'local', remote: { endpoint: 'https://runtime.example.com/' } } },
}
