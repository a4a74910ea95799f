// Generates configurations of clients: every client, JSON in the forms that people write, commands and URLs, secrets in
// each place where they occur.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import fc from 'fast-check'
import type { ConfigurationPlace } from 'svc-sdk/internal/init/clients/clients'

/** What a test knows of one value that is secret. */
interface Secret {
  readonly text: string
}

const digits = fc.stringMatching(/^[0-9a-f]{24}$/)
/** Forms of secrets; those without a form of their own are under a name that says it. */
const named = digits.map((text): [string, string] => ['API_KEY', `plain${text.slice(0, 6)}word`])
const variable = fc.oneof(
  named,
  digits.map((text): [string, string] => ['DATABASE', `postgres://ada:${text}@db.example.com/main`]),
  digits.map((text): [string, string] => ['GITHUB', `ghp_${text}${text}`]),
  digits.map((text): [string, string] => ['HOOK', `https://hooks.example.com/services/${text}`]),
  digits.map((text): [string, string] => ['OTHER', text]),
)
const plain = fc.constantFrom<[string, string]>(['LEVEL', 'debug'], ['PORT', '8080'], ['EMPTY', ''])
const filled = fc.constantFrom<[string, string]>(
  ['ASKED', '$' + '{input:key}'],
  ['SHELL_KEY', '$' + '{API_KEY}'],
)

interface Generated {
  readonly entry: Record<string, unknown>
  readonly secrets: readonly Secret[]
}

const argument = fc.oneof(
  digits.map((text) => ({ args: ['--api-key', `k${text}`], secret: `k${text}` })),
  digits.map((text) => ({ args: [`--token=t${text}`], secret: `t${text}` })),
  digits.map((text) => ({ args: ['-e', `SECRET_X=s${text}`], secret: `s${text}` })),
  digits.map((text) => ({ args: [`mysql://ada:${text}@db/x`], secret: text })),
  digits.map((text) => ({ args: ['--header', `X-Team: h${text}`], secret: `h${text}` })),
)

/** What `Home.writeNpm` installs. */
const npxPackage = ['-y', '@scope/server@1.2.3']

const command = fc
  .record({
    program: fc.constantFrom('npx', 'node', '/usr/bin/env'),
    args: fc.array(fc.constantFrom('-y', 'name@1.2.3', '/tmp', '--verbose', '$HOME', ''), {
      maxLength: 3,
    }),
    argument: fc.option(argument),
    env: fc.array(fc.oneof(variable, plain, filled), { maxLength: 3 }),
    hasSecrets: fc.boolean(),
    isOfClient: fc.boolean(),
    type: fc.boolean(),
  })
  .map(({ program, args, argument: secretArgument, env, hasSecrets, isOfClient, type }): Generated => {
    // A secret beside variables of the client leaves the entry alone.
    const given = hasSecrets && !isOfClient ? secretArgument : null
    const ofClient = isOfClient ? ['--root', '$' + '{workspaceFolder}/a'] : []
    const variables = Object.fromEntries(
      hasSecrets ? env : env.filter(([name]) => ['LEVEL', 'PORT', 'EMPTY'].includes(name)),
    )
    const isSecret = (name: string, value: string) =>
      !['LEVEL', 'PORT', 'EMPTY'].includes(name) && !value.startsWith('$')
    return {
      entry: {
        ...(type ? { type: 'stdio' } : {}),
        command: program,
        args: [...(program === 'npx' ? npxPackage : []), ...args, ...ofClient, ...(given?.args ?? [])],
        ...(Object.keys(variables).length === 0 ? {} : { env: variables }),
      },
      secrets: [
        ...(given === null ? [] : [{ text: given.secret }]),
        ...Object.entries(variables).flatMap(([name, value]) =>
          isSecret(name, value) ? [{ text: value }] : [],
        ),
      ],
    }
  })

const remote = fc
  .record({
    header: fc.constantFrom('Authorization', 'X-Api-Key'),
    text: digits,
    form: fc.constantFrom('Bearer', 'raw', 'client'),
    hasAccept: fc.boolean(),
    type: fc.boolean(),
  })
  .map(({ header, text, form, hasAccept, type }): Generated => {
    const value = form === 'client' ? '$' + '{TOKEN}' : form === 'raw' ? text : `Bearer ${text}`
    const headers = { ...(hasAccept ? { Accept: 'application/json' } : {}), [header]: value }
    const entry = { ...(type ? { type: 'http' } : {}), url: 'https://mcp.example.com/mcp', headers }
    return { entry, secrets: form === 'client' ? [] : [{ text }] }
  })

const names = fc.constantFrom('github', 'files', 'GitHub', 'my server', 'a/b', 'schön', '..', '*')

export interface GeneratedFile {
  readonly place: ConfigurationPlace
  readonly bytes: Buffer
  readonly secrets: readonly Secret[]
  readonly isLink: boolean
  /** The path of one entry. */
  readonly entry: string[]
}

/** A configuration at this place, in one of the forms of JSON that its client reads. */
function fileAt(place: ConfigurationPlace): fc.Arbitrary<GeneratedFile> {
  const paths = place.servers.map((path) => path.map((name) => (name === '*' ? '/srv/a "b"' : name)))
  return fc
    .record({
      path: fc.constantFrom(...paths),
      servers: fc.uniqueArray(
        fc.tuple(names, fc.oneof({ weight: 2, arbitrary: command }, { weight: 1, arbitrary: remote })),
        {
          minLength: 1,
          maxLength: 3,
          selector: ([name]) => name,
        },
      ),
      indent: fc.constantFrom<string | number>(2, 4, '\t', 0),
      line: fc.constantFrom('\n', '\r\n'),
      hasMark: fc.boolean(),
      hasComments: fc.boolean(),
      isLink: fc.boolean(),
      ends: fc.boolean(),
      isFirst: fc.boolean(),
    })
    .map(({ path, servers, indent, line, hasMark, hasComments, isLink, ends, isFirst }) => {
      const entries = servers.map(([name, { entry }]) => [name, { ...entry, disabled: false }])
      const own = path.reduceRight(
        (value, name) => ({ [name]: value }),
        Object.fromEntries(entries) as object,
      )
      const other = { theme: 'dark', list: [1, { a: [] }], text: 'h\u00e9 "quoted" // no comment' }
      let text = JSON.stringify(isFirst ? { ...own, ...other } : { ...other, ...own }, null, indent)
      if (hasComments && place.hasComments) text = commented(text)
      text = `${text}${ends ? '\n' : ''}`.replaceAll('\n', line)
      return {
        place,
        bytes: Buffer.from(hasMark ? `\uFEFF${text}` : text),
        secrets: servers.flatMap(([, { secrets }]) => secrets),
        isLink,
        entry: [...path, servers[0]?.[0] ?? ''],
      }
    })
}

/** With comments and trailing commas. */
function commented(text: string): string {
  return text
    .replaceAll(/^(\s+)("(?:command|url|disabled)":)/gm, '$1// about the next\n$1$2')
    .replaceAll(/("disabled": false)\n/g, '$1, // last\n')
    .replace('{', '{ /* mine */')
}

/** Some of the configurations that a user may have. */
export function configurations(places: readonly ConfigurationPlace[]): fc.Arbitrary<GeneratedFile[]> {
  return fc
    .subarray([...places], { minLength: 1, maxLength: 4 })
    .chain((chosen) => fc.tuple(...chosen.map(fileAt)))
}

export function writeConfiguration({ place: { file }, bytes, isLink }: GeneratedFile): void {
  mkdirSync(dirname(file), { recursive: true })
  const path = isLink ? `${file}.real` : file
  writeFileSync(path, bytes, { mode: 0o640 })
  if (isLink) symlinkSync(path, file)
}
