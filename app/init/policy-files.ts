// The text of the policy and of its first test.

import { brokersPlugin } from '@svc/plugin-brokers'
import {
  type Preset,
  type PresetCommand,
  type PresetPlace,
  presetPolicy,
} from '../policy/presets/preset-policy.js'
import { ConfigurationError } from './configuration-text.js'
import type { PlannedServer } from './plan.js'

export interface NewPolicyPlace extends Omit<PresetPlace, 'targets'> {
  /** The path of the JSON Schema, from the policy. */
  readonly schemaPath: string
}

export function newPolicy(preset: Preset, servers: readonly PlannedServer[], place: NewPolicyPlace): string {
  const { schemaPath, ...rest } = place
  const targets = Object.fromEntries(targetsOf(servers))
  const text = `# yaml-language-server: $schema=${schemaPath}\n${presetPolicy(preset, { ...rest, targets })}`
  return withBrokers(text, servers)
}

/** The policy with further servers. Every other byte stays. Throws `ConfigurationError`. */
export function extendedPolicy(text: string, servers: readonly PlannedServer[]): string {
  const targets = targetsOf(servers).map(
    ([name, target]) => `${JSON.stringify(name)}: ${JSON.stringify(target)}`,
  )
  return withBrokers(targets.length === 0 ? text : withMembers(text, 'targets', targets), servers)
}

function targetsOf(servers: readonly PlannedServer[]): [string, string | PresetCommand][] {
  return servers.flatMap(({ name, target }) => (target === undefined ? [] : [[name, target]]))
}

/** The values of headers are in files. */
function withBrokers(text: string, servers: readonly PlannedServer[]): string {
  const brokers = servers.flatMap(({ name, header }) => {
    if (header === undefined) return []
    const inject = `{ header: ${JSON.stringify(header.name)}, format: raw }`
    return [
      `${JSON.stringify(name)}: { type: static, key_refs: [${JSON.stringify(header.ref)}], inject: ${inject} }`,
    ]
  })
  return brokers.length === 0 ? text : withMembers(text, brokersPlugin.name, brokers)
}

/** Adds lines at the beginning of a section, which is a block or absent. The policy is loaded before it is used. */
function withMembers(text: string, section: string, lines: readonly string[]): string {
  if (!new RegExp(`^["']?${section}["']?[ \\t]*:`, 'm').test(text)) {
    const end = text === '' || text.endsWith('\n') ? '' : '\n'
    return `${text}${end}\n${section}:\n${lines.map((line) => `  ${line}\n`).join('')}`
  }
  const empty = new RegExp(`^${section}:[ \\t]*\\{[ \\t]*\\}[ \\t]*$`, 'm')
  if (empty.test(text))
    return text.replace(empty, () => [`${section}:`, ...lines.map((line) => `  ${line}`)].join('\n'))
  const comments = '(?:[ \\t]*(?:#.*)?\\r?\\n)*'
  const block = new RegExp(`^${section}:[ \\t]*(?:#.*)?\\r?\\n${comments}([ \\t]+)(?=[^\\s#])`, 'm').exec(
    text,
  )
  const [whole, indent] = block ?? []
  if (block === null || whole === undefined || indent === undefined) {
    throw new ConfigurationError(`its section ${section} is not a block of lines, so no server can be added`)
  }
  const start = block.index + whole.length
  return text.slice(0, start) + lines.map((line) => `${line}\n${indent}`).join('') + text.slice(start)
}

/** `policy test` passes with it. */
export function firstTest(preset: Preset, policyName: string, servers: readonly PlannedServer[]): string {
  const [[name] = ['server']] = targetsOf(servers)
  const refused = preset === 'guard' ? 'deny\n    reason: rule:deletions' : 'allow # guard: deny'
  return `# Tests of ${policyName}: which calls it allows. Nothing is sent.
#   npx svc-sdk policy test ${policyName.replace(/\.yaml$/, '.test.yaml')}
cases:
  - name: tools of ${name} may be used
    call: ${name}/list_items
    expect: allow

  - name: deletions are refused by guard, and recorded by observe
    call: ${name}/delete_item
    expect: ${refused}
`
}
