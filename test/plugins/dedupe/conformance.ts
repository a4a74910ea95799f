// A section as someone would write it, for the conformance suite.
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = { validConfig: { ttlSec: 60 } }
