// A realistic section, for the conformance suite.
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: (directory: string) => {
    const key = join(directory, 'key')
    generateKeyFile(key)
    return {
      gatewayName: 'gw',
      gatewayVersion: '1.0.0',
      dir: directory,
      signer: { keyRef: `file://${key}` },
    }
  },
}
