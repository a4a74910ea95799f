// A worker of a test's own module, without a gateway around it.
import { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'

/** `methods` are those of the main process that the worker may call. */
export async function startWorker(module: URL, methods = {}): Promise<WorkerProcess> {
  const worker = new WorkerProcess(module, 0, {
    methodsFor: () => methods as never,
    onLiveness: () => undefined,
    onHung: () => undefined,
  })
  await worker.start({ count: 1, policy: '', options: {}, output: {}, commandsPath: '' })
  return worker
}
