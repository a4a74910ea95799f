// An appender that uploads to a cloud of the test's own.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { signJson } from '@svc/plugin-audit/internal/log/keys/signatures'
import type { AppenderOptions, PresignConfig, SvcAppender, UploadError } from '@svc/plugin-audit/log'
import { appenderIn, signer } from '../writer/records.js'
import type { Cloud } from './cloud.js'

export interface Rig {
  readonly appender: SvcAppender
  readonly errors: UploadError[]
}

/** Uploads only on request, unless `presign` says otherwise; waits almost no time after a failure. */
export function uploading(
  dir: string,
  cloud: Pick<Cloud, 'url'>,
  presign: Partial<PresignConfig> = {},
  options: Partial<Omit<AppenderOptions, 'config'>> & { retentionDays?: number; sealed?: boolean } = {},
): Rig {
  const errors: UploadError[] = []
  // Most tests count objects, which those of checkpoints would disturb.
  const { retentionDays = 30, sealed = false, ...rest } = options
  const appender = appenderIn(dir, {
    random: () => 0,
    onAsyncError: (error) => errors.push(error as UploadError),
    ...rest,
    config: {
      retentionDays,
      ...(sealed ? {} : { checkpoints: false as const }),
      presign: {
        apiBaseUrl: cloud.url,
        auditKey: 'Bearer key-1',
        tenant: 'acme',
        environment: 'prod',
        clientName: 'edge',
        clientVersion: '1.0.0',
        intervalMs: 3_600_000,
        timeoutMs: 5_000,
        ...presign,
      },
    },
  })
  return { appender, errors }
}

/** The appender after its first round of upload, so that the test decides when the next one begins. */
export async function uploadingSoon(...args: Parameters<typeof uploading>): Promise<Rig> {
  const rig = uploading(...args)
  await rig.appender.ready()
  await rig.appender.flush()
  return rig
}

export function textOf(dir: string, path: string): string {
  return readFileSync(join(dir, path), 'utf8')
}

export interface StateFile {
  version: number
  files: Record<string, { offset: number; pending?: number; updatedAt: string }>
}

export function stateOf(dir: string): StateFile {
  return JSON.parse(textOf(dir, '.svc-presign-state.json'))
}

/** Writes the state as a writer with this key leaves it. */
export async function writeState(
  dir: string,
  files: StateFile['files'],
  { by = signer, logId = undefined as string | undefined } = {},
): Promise<void> {
  const names = { key_id: by.keyId, ...(logId === undefined ? {} : { log_id: logId }) }
  const signed = await signJson(
    { version: 1, file: '.svc-presign-state.json', files: { ...files }, ...names },
    by,
  )
  writeFileSync(join(dir, '.svc-presign-state.json'), JSON.stringify(signed))
}
