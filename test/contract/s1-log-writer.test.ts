import { writeFileSync } from 'node:fs'
import { expect } from 'chai'
import * as audit from 'svc-sdk/audit'
import { fromBase64, LocalDevSigner } from 'svc-sdk/signer'
import { daily, envelope, isSigned, openLog, openUploadingLog, payload, reopened, today } from './log.js'
import { lastCall, serving } from './rig.js'
import { contractSection } from './section.js'

contractSection('1', 'What the service does', ({ holds }) => {
  holds('a', '`svc-sdk/audit` exports the writer class `SvcAppender`.', () => {
    expect(audit.SvcAppender).to.be.a('function')
    expect(audit.SvcAppender.name).to.equal('SvcAppender')
  })

  holds('b', 'The gateway records every hop of a tool call.', async () => {
    await using rig = await serving()
    const { record } = await rig.call()
    await rig.call({ tool: 'write@1.0.0' })
    expect(record).to.include({ tool: 'read@1.0.0', node_type: 'gateway' })
    expect(rig.gateway.records()).to.have.length(2)
  })

  holds('c', 'A log file is NDJSON: one JSON object per line.', async () => {
    await using log = await openLog()
    await Promise.all([log.appender.append(envelope()), log.appender.append(envelope())])
    const text = log.text(daily)
    expect(text.endsWith('\n')).to.equal(true)
    const lines = text.slice(0, -1).split('\n')
    expect(lines).to.have.length(2)
    for (const line of lines) expect(JSON.parse(line)).to.be.an('object')
  })

  holds('d', 'A log file is append-only: a new record leaves the bytes before it.', async () => {
    await using log = await openLog()
    await log.appender.append(envelope())
    const before = log.text(daily)
    await log.appender.append(envelope({ tool: 'other@1' }))
    expect(log.text(daily).startsWith(before)).to.equal(true)
    expect(log.text(daily).length).to.be.above(before.length)
  })

  holds('e', 'Files rotate daily: each record is in the file of its day.', async () => {
    await using log = await openLog()
    const yesterday = new Date(Date.parse(`${today}T00:00:00Z`) - 1).toISOString()
    await log.appender.append(envelope({ ts: yesterday, tool: 'first@1' }))
    await log.appender.append(envelope({ tool: 'second@1' }))
    expect(log.lines(`audit-${yesterday.slice(0, 10)}.ndjson`).map(({ tool }) => tool)).to.deep.equal([
      'first@1',
    ])
    expect(log.lines(daily).map(({ tool }) => tool)).to.deep.equal(['second@1'])
  })

  holds(
    'f',
    'A record carries timing, identity, tracing, integrity, policy, signature and agent state.',
    async () => {
      await using rig = await serving()
      const state = Buffer.from(JSON.stringify({ variables: { goal: 'x' } })).toString('base64url')
      const headers = { 'x-node-id': 'node-1', 'x-agent-ref': 'run-1', 'x-agent-state': state }
      const { record } = await rig.call({ headers })
      expect(record).to.include.all.keys(
        ...['ts', 'latency_ms', 'tenant', 'server', 'tool', 'nodeId', 'agentRef', 'trace_id', 'span_id'],
        ...['cause_trace_id', 'cause_span_id', 'input_sha256', 'output_sha256', 'policy', 'sig'],
        ...['agentVariables', 'agentMetadata', 'risk_tags', 'findings'],
      )
    },
  )

  holds('g', 'Every envelope is signed with Ed25519 over its canonical JSON form.', async () => {
    await using log = await openLog()
    await log.appender.append(envelope({ agentVariables: { b: 1, a: [1.0, 'é'] } }))
    const [line] = log.lines(daily)
    expect(isSigned(line!, log.signer.publicKey!)).to.equal(true)
    expect(isSigned({ ...line, tenant: 'other' }, log.signer.publicKey!)).to.equal(false)
  })

  holds(
    'h',
    'With `presign`, only the bytes appended since the last successful upload are sent.',
    async () => {
      await using log = await openUploadingLog()
      await log.appender.append(envelope({ tool: 'first@1' }))
      await log.appender.flush()
      const first = log.text(daily)
      await log.appender.append(envelope({ tool: 'second@1' }))
      await log.appender.flush()
      const sent = log.puts().map(({ body }) => body.toString())
      expect(sent).to.deep.equal([first, log.text(daily).slice(first.length)])
    },
  )

  holds('i', 'An upload is a PUT to the presigned URL that the control plane returned.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope())
    await log.appender.flush()
    const [put] = log.puts()
    expect(put).to.include({ method: 'PUT' })
    const { key } = JSON.parse(String(log.asks()[0]?.body)) as { key: string }
    expect(put?.path).to.equal(`/store/${key}`)
  })

  holds('j', 'The raw payload dataset requires the upload configuration.', async () => {
    await using log = await openLog()
    const error = await log.appender.appendRawPayload(payload).catch((thrown: unknown) => thrown)
    expect(error).to.be.instanceOf(audit.AuditError).with.property('code', 'presign_required')
    expect(log.has(`raw/raw-${today}.ndjson`)).to.equal(false)
  })

  holds(
    'k',
    'The raw dataset takes tenant, environment and client from the upload configuration.',
    async () => {
      await using log = await openUploadingLog({ tenant: 'umbrella', clientName: 'cli' })
      await log.appender.appendRawPayload(payload)
      await log.appender.flush()
      expect([...log.cloud.objects.keys()].join()).to.include('tenants/umbrella/prod/clients/cli/1.0.0/raw/')
    },
  )

  holds('l', '`startGatewayServer` starts an HTTP server in front of upstream tool servers.', async () => {
    await using rig = await serving()
    const { status, body } = await rig.call({ args: { id: 7 } })
    expect(status).to.equal(200)
    expect(body).to.deep.equal({ echoed: { id: 7 } })
    expect(JSON.parse(lastCall(rig).body)).to.deep.equal({ id: 7 })
  })

  holds('m', '`config.dir` is the root directory of all audit files.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope({ nodeId: 'n', agentRef: 'r' }))
    await log.appender.appendRawPayload(payload)
    await log.appender.flush()
    for (const path of [
      daily,
      `agents/n/${today}/r.ndjson`,
      `raw/raw-${today}.ndjson`,
      '.svc-presign-state.json',
    ])
      expect(log.has(path), path).to.equal(true)
  })

  holds('n', 'Files older than `config.retentionDays` days are removed.', async () => {
    const day = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10)
    await using log = await openLog({ retentionDays: 30 })
    for (const days of [40, 1]) await log.appender.append(envelope({ ts: `${day(days)}T00:00:00.000Z` }))
    await log.appender.close()
    await using again = await reopened(log, { retentionDays: 30 })
    await again.appender.ready()
    await again.appender.flush()
    expect(again.has(`audit-${day(1)}.ndjson`)).to.equal(true)
    expect(again.has(`audit-${day(40)}.ndjson`)).to.equal(false)
  })

  holds('o', '`config.presign` is optional.', async () => {
    await using log = await openLog()
    await log.appender.append(envelope())
    expect(log.lines(daily)).to.have.length(1)
    expect(log.has('.svc-presign-state.json')).to.equal(false)
  })

  holds('p', '`signer` is any object that satisfies the signer interface.', async () => {
    const signed: Uint8Array[] = []
    const key = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
    const signer = {
      keyId: 'projects/audit/keys/1',
      sign: (data: Uint8Array) => {
        signed.push(Uint8Array.from(data))
        return key.sign(data)
      },
      verify: (data: Uint8Array, sig: Uint8Array) => key.verify(data, sig),
    }
    await using log = await openLog({}, { signer })
    await log.appender.append(envelope())
    expect(signed).to.not.have.length(0)
    expect(isSigned(log.lines(daily)[0]!, key.publicKey)).to.equal(true)
    const file = `${log.dir}.pub`
    writeFileSync(file, `ed25519:${Buffer.from(key.publicKey).toString('base64')}\n`)
    const options = { keys: await audit.readKeys(file) }
    expect(await audit.verifyLog(log.dir, options)).to.have.property('verdict', 'cannot_be_judged')
    expect(await audit.verifyLog(log.dir, { ...options, allowUnsealed: true })).to.have.property(
      'verdict',
      'intact',
    )
  })

  holds(
    'q',
    '`append` takes an envelope without `sig`, signs it and appends one line; it is asynchronous.',
    async () => {
      await using log = await openLog()
      const appending = log.appender.append(envelope())
      expect(appending).to.be.instanceOf(Promise)
      await appending
      const [line, ...rest] = log.lines(daily)
      expect(rest).to.deep.equal([])
      const { sig, log_id, seq, ...given } = line ?? {}
      expect(given).to.deep.equal(envelope())
      expect(fromBase64(String(line?.['sig']).slice('ed25519:'.length))).to.have.length(64)
    },
  )

  holds(
    'r',
    '`append` also writes the per-agent log when `nodeId` and `agentRef` are both present.',
    async () => {
      await using log = await openLog()
      await log.appender.append(envelope({ nodeId: 'node-1', agentRef: 'run-1' }))
      await log.appender.flush()
      expect(log.text(`agents/node-1/${today}/run-1.ndjson`)).to.equal(log.text(daily))
    },
  )

  holds('s', 'With only one of `nodeId` and `agentRef` there is no per-agent log.', async () => {
    await using log = await openLog()
    await log.appender.append(envelope({ nodeId: 'node-1', agentRef: null }))
    await log.appender.append(envelope({ agentRef: 'run-1' }))
    await log.appender.flush()
    expect(log.lines(daily)).to.have.length(2)
    expect(log.has(`agents/node-1/${today}`)).to.equal(false)
  })

  holds('t', '`appendRawPayload` appends one line to the raw dataset; it is asynchronous.', async () => {
    await using log = await openUploadingLog()
    const appending = log.appender.appendRawPayload(payload)
    expect(appending).to.be.instanceOf(Promise)
    await appending
    expect(log.lines(`raw/raw-${today}.ndjson`)).to.deep.equal([payload])
  })

  holds('u', 'The daily log is `audit-<YYYY-MM-DD>.ndjson`.', async () => {
    await using log = await openLog()
    await log.appender.append(envelope({ ts: `${today}T23:59:59.999Z` }))
    expect(log.lines(`audit-${today}.ndjson`)).to.have.length(1)
  })

  holds('v', 'Upload progress of every file is kept in `.svc-presign-state.json`.', async () => {
    await using log = await openUploadingLog()
    await log.appender.append(envelope())
    await log.appender.flush()
    const { files } = JSON.parse(log.text('.svc-presign-state.json')) as {
      files: Record<string, { offset: number }>
    }
    expect(files[daily]?.offset).to.equal(Buffer.byteLength(log.text(daily)))
  })

  holds('w', '`config.presign` enables automatic upload: nothing but `append` is called.', async () => {
    await using log = await openUploadingLog()
    const agentVariables = { text: 'x'.repeat(1_200_000) }
    await log.appender.append(envelope({ agentVariables }))
    await log.cloud.until(() => log.puts().length > 0)
    expect(log.puts().map(({ body }) => body.toString())).to.deep.equal([log.text(daily)])
  })
})
