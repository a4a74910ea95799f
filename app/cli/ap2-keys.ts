// The keys with which `svc ap2 make` plays issuer and agent.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { isJsonObject } from '@svc/core/json'
import { generateLocalKey, type LocalKey, localKeyOf } from '@svc/plugin-ap2/dev'

export interface LocalKeys {
  readonly issuer: LocalKey
  readonly agent: LocalKey
  readonly isNew: boolean
}

/** Creates the file where it is absent, readable by its owner only. @throws {Error} for a file of another form */
export function localKeys(path: string): LocalKeys {
  if (!existsSync(path)) {
    const [issuer, agent] = [generateLocalKey('ES256'), generateLocalKey('ES256')]
    const text = JSON.stringify({ issuer: issuer.privateJwk, agent: agent.privateJwk }, null, 2)
    writeFileSync(path, `${text}\n`, { mode: 0o600, flag: 'wx' })
    return { issuer, agent, isNew: true }
  }
  const keys: unknown = JSON.parse(readFileSync(path, 'utf8'))
  if (!isJsonObject(keys) || !isJsonObject(keys['issuer']) || !isJsonObject(keys['agent'])) {
    throw new Error(`${path} does not have the keys issuer and agent`)
  }
  return { issuer: localKeyOf(keys['issuer']), agent: localKeyOf(keys['agent']), isNew: false }
}
