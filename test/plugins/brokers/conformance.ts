// A valid section for the conformance suite.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConformanceOptions } from 'svc-sdk/testing'

export const options: ConformanceOptions = {
  validConfig: (directory: string) => {
    writeFileSync(join(directory, 'vendor.key'), 'a key of the test')
    return {
      billing: {
        type: 'vendor_key_pool',
        key_refs: ['file://vendor.key'],
        inject: { header: 'x-api-key', format: 'raw' },
      },
    }
  },
}
