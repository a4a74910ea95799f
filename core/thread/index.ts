// Worker threads and the calls between them. It loads no other module of the core, so that a thread starts quickly.
export { Calls } from './calls.js'
export { hasWorkerFile, inThisThread, type ServedCalls, startWorker, Thread } from './thread.js'
