// The start of a gateway without a policy file: a preset for the given servers, and keys and log in the directory of the user.
import { statSync } from 'node:fs'
import { homedir, userInfo } from 'node:os'
import { isAbsolute, join, parse, resolve, sep } from 'node:path'
import { messageOf } from '@svc/core/json'
import { loadOrCreateKey } from '@svc/core/secret'
import { newSigningKey } from '@svc/plugin-audit/log'
import type { GatewaySettings } from '../../gateway/options.js'
import { userDirectory } from '../user-directory.js'
import { type Preset, type PresetPlace, presetPolicy } from './preset-policy.js'
import type { NamedTarget } from './target-argument.js'

/** The port for approvals of all gateways of a user that run by a preset; the first of them listens. */
export const defaultAdminPort = 8797

const signingKey = 'signing.key'

interface PresetStart {
  readonly preset: Preset
  readonly targets: readonly NamedTarget[]
  readonly port: number
  readonly adminPort: number
  /** Whether it has an admin listener in any case; guard has one for approvals. */
  readonly hasConsole?: boolean
  /** The log is `logs/<name>`: servers that are started on their own have a log each. */
  readonly logName: string
  /** In place of the directory of the user. */
  readonly dir?: string | undefined
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface PreparedPreset {
  readonly policy: Pick<GatewaySettings, 'policyFile'> & { readonly policyYaml: string }
  readonly logDir: string
}

/** Makes keys that are missing, readable by their owner only. Rejects with the reason. */
export async function preparePreset(start: PresetStart): Promise<PreparedPreset> {
  const { preset, targets, port, adminPort, logName, env } = start
  const stateDir = start.dir === undefined ? userDirectory(env) : resolve(start.dir)
  const logDir = join(stateDir, 'logs', encodeURIComponent(logName))
  const admin = { port: adminPort, tokenPath: join(stateDir, 'admin.token') }
  const hasAdmin = preset === 'guard' || start.hasConsole === true
  await makeKeys(stateDir, hasAdmin ? [signingKey, 'admin.token'] : [signingKey])
  const policyYaml = presetPolicy(preset, {
    targets: namedOnce(targets),
    port,
    stateDir,
    logDir,
    keyPath: join(stateDir, signingKey),
    user: userName(),
    ...knownDirectories(targets.map(({ target }) => target)),
    ...(hasAdmin ? { admin } : {}),
  })
  return { policy: { policyYaml, policyFile: `preset ${preset}` }, logDir }
}

/** A user of a container may have no name. */
function userName(): string {
  try {
    return userInfo().username
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) return `uid-${process.getuid?.()}`
    throw error
  }
}

async function makeKeys(stateDir: string, names: readonly string[]): Promise<void> {
  try {
    for (const fileName of names) {
      const create = fileName === signingKey ? { create: newSigningKey } : {}
      await loadOrCreateKey({ fileName, owner: fileName, ...create }, { baseDir: stateDir, stateDir })
    }
  } catch (cause) {
    throw new Error(`the keys cannot be made: ${messageOf(cause)}; --dir names another directory`, { cause })
  }
}

function namedOnce(targets: readonly NamedTarget[]): Record<string, NamedTarget['target']> {
  for (const [index, { name }] of targets.entries()) {
    if (targets.findIndex((other) => other.name === name) === index) continue
    throw new Error(`two targets have the name ${name}; give one another name: NAME=URL or NAME=COMMAND`)
  }
  return Object.fromEntries(targets.map(({ name, target }) => [name, target]))
}

/**
 * The directories that tools may use: the working one, and those that the commands of the servers name. Whole disks and
 * directories with the user's home are not among them, as they hold keys and settings.
 */
export function knownDirectories(
  targets: readonly NamedTarget['target'][],
  cwd = process.cwd(),
): Pick<PresetPlace, 'directories' | 'root'> {
  const named = targets
    .flatMap((target) => (typeof target === 'string' ? [] : (target.args ?? [])))
    .filter((arg) => isAbsolute(arg) && isDirectory(arg))
    .map((arg) => resolve(arg))
  const directories = [...new Set(named)].filter((directory) => !containsHome(directory))
  return containsHome(cwd) ? { directories } : { directories, root: cwd }
}

function containsHome(directory: string): boolean {
  return directory === parse(directory).root || `${homedir()}${sep}`.startsWith(`${directory}${sep}`)
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
