// A section as someone would write it, for the conformance suite.
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: {
    oidc: {
      issuer: 'https://id.example.com/',
      audience: 'gw',
      jwks_uri: 'https://id.example.com/jwks',
    },
  },
}
