// A section as an author would write it, for the conformance suite.
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: { preset: 'observe', definitions: { effect: 'withhold', trust: 'first_use' } },
}
