// `svc audit fetch`: restores an uploaded log, from a control plane or from its bucket.
import { defined } from '@svc/core/json'
import { AuditError } from '@svc/plugin-audit/log'
import { controlPlaneSource, fetchLog, type ObjectSource, readInput, readKeys } from '@svc/plugin-audit/tools'
import { loadControlPlane } from './control-plane.js'
import type { CliIo, Environment } from './io.js'
import { ownCommand } from './own-command.js'
import { progressDisplay } from './progress.js'

export interface FetchArguments {
  log?: string
  keys?: string
  keyFile?: string
  tenant?: string
  environment?: string
  clientName?: string
  clientVersion?: string
  json?: boolean
  quiet?: boolean
}

type OpenSource = ObjectSource & { close(): void }

const URL_SECONDS = 900
const INCOMPLETE = 1

export async function fetchUploaded(
  from: string,
  dir: string,
  options: FetchArguments,
  io: CliIo,
  env: Environment = process.env,
): Promise<void> {
  const source = from.startsWith('s3://')
    ? await bucketSource(from, options, env)
    : await controlPlane(from, options, env)
  try {
    const { log: logId, keys, quiet } = options
    const progress = progressDisplay(io, 'audit fetch', quiet)
    const report = await fetchLog(source, dir, {
      ...defined({ logId }),
      ...(keys === undefined ? {} : { keys: await readKeys(keys) }),
      onProgress: progress.show,
    })
    progress.clear()
    const { files, objects, bytes, head, problems } = report
    io.exit(problems.length === 0 ? 0 : INCOMPLETE)
    if (options.json === true) return io.out(`${JSON.stringify(report, null, 2)}\n`)
    for (const problem of problems) io.err(`${problem}\n`)
    await io.out(`${files} files of ${objects} objects, ${bytes} bytes, in ${dir}\n`)
    const newest =
      head && `the newest checkpoint of ${head.origin} has ${head.size} leaves, root ${head.root}`
    await io.out(`${newest ?? 'there is no checkpoint'}\n`)
    await io.out(`next: ${ownCommand()} audit verify ${dir} --keys ${keys ?? 'FILE'}\n`)
  } finally {
    await source.close()
  }
}

async function controlPlane(
  apiBaseUrl: string,
  options: FetchArguments,
  env: Environment,
): Promise<OpenSource> {
  if (!/^https?:\/\//.test(apiBaseUrl)) {
    throw new AuditError('read_failed', `${apiBaseUrl} is neither an http or https URL nor s3://BUCKET`)
  }
  const { tenant, environment, clientName, clientVersion } = options
  const given = Object.entries({ tenant, environment, clientName, clientVersion })
  const owner = Object.fromEntries(given.filter(([, value]) => value !== undefined))
  return controlPlaneSource({ apiBaseUrl, auditKey: `Bearer ${await apiKey(options, env)}`, ...owner })
}

/** Reads the key from a file or the environment, as other users of a machine see the arguments of a command. */
async function apiKey({ keyFile }: FetchArguments, env: Environment): Promise<string> {
  const key =
    keyFile === undefined ? env['SVC_AUDIT_KEY'] : (await readInput(keyFile, 'API key')).toString().trim()
  if (key === undefined || key === '') {
    throw new AuditError('read_failed', 'the API key is missing: set SVC_AUDIT_KEY, or give --key-file')
  }
  return key
}

async function bucketSource(from: string, options: FetchArguments, env: Environment): Promise<OpenSource> {
  const [, bucket, prefix = ''] = /^s3:\/\/([^/]+)\/?(.*)$/.exec(from) ?? []
  const { tenant, environment, clientName, clientVersion } = options
  if (!bucket || !tenant || !environment || !clientName || !clientVersion) {
    throw new AuditError(
      'read_failed',
      's3://BUCKET[/PREFIX] needs --tenant, --environment, --client-name and --client-version',
    )
  }
  const { foldersOf, openStore } = await loadControlPlane('a bucket')
  const store = await openStore({ bucket, prefix, expiresSec: URL_SECONDS }, env)
  const folders = foldersOf({ tenant, env: environment, clientName, clientVersion })
  return {
    prefix: async () => `${folders.join('/')}/`,
    async *list(wanted) {
      for (let after: string | undefined; ; ) {
        const { objects, next } = await store.list({ prefix: wanted, after })
        yield* objects
        if (next === undefined) return
        after = next
      }
    },
    url: (key) => store.presignDownload(key),
    close: () => store.close(),
  }
}
