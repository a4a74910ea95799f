// Signs and checks states of what was sent, with the keys of the log.

import type { Signer } from '@svc/core'
import { hasSigned, signJson } from '../keys/signed-json.js'
import type { UploadedLog } from './file-sizes.js'
import type { StateKey } from './state-file.js'

export function stateKey(log: UploadedLog, signer: Signer): StateKey {
  return {
    async sign(state) {
      const { logId } = await log.open()
      return signJson(
        { ...state, key_id: signer.keyId, ...(logId === undefined ? {} : { log_id: logId }) },
        signer,
      )
    },
    async isSigned(state) {
      const keys = await log.trustedKeys()
      return state['log_id'] === (await log.open()).logId && keys.some((key) => hasSigned(state, key))
    },
  }
}
