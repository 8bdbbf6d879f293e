// What libfabric's headers define as inline functions over tables, as functions that Rust can call.
// Each returns 0 or more, or a negative error number. Nothing here keeps state.

#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

// The version of the interface that this file was written for.
#define INTERFACE FI_VERSION(1, 14)
// A writer must have its message arrive after its writes, and messages in order.
#define ORDER (FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW)

struct device {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    uint64_t virtual_addresses;
};

int isorb_find(const char *provider, const char *host, const char *port, int listens, struct fi_info **found)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return -FI_ENOMEM;
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_RMA;
    // Harmless: nothing here sends data with a completion.
    hints->mode = FI_RX_CQ_DATA;
    hints->rx_attr->mode = FI_RX_CQ_DATA;
    hints->tx_attr->msg_order = ORDER;
    hints->rx_attr->msg_order = ORDER;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(provider);
    int code = fi_getinfo(INTERFACE, host, port, listens ? FI_SOURCE : 0, hints, found);
    fi_freeinfo(hints);
    return code;
}

const char *isorb_fabric_name(struct fi_info *info) { return info->fabric_attr->name; }
const char *isorb_domain_name(struct fi_info *info) { return info->domain_attr->name; }
void isorb_free(struct fi_info *info) { fi_freeinfo(info); }

void isorb_close_device(struct device *device)
{
    if (device->cq)
        fi_close(&device->cq->fid);
    if (device->domain)
        fi_close(&device->domain->fid);
    if (device->eq)
        fi_close(&device->eq->fid);
    if (device->fabric)
        fi_close(&device->fabric->fid);
    free(device);
}

int isorb_open_device(struct fi_info *info, struct device **opened, int *eq_fd, int *cq_fd)
{
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};
    struct fi_cq_attr cq = {.size = 4096, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    struct device *device = calloc(1, sizeof *device);
    int code;
    if (!device)
        return -FI_ENOMEM;
    device->virtual_addresses = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    if ((code = fi_fabric(info->fabric_attr, &device->fabric, NULL)) ||
        (code = fi_eq_open(device->fabric, &eq, &device->eq, NULL)) ||
        (code = fi_domain(device->fabric, info, &device->domain, NULL)) ||
        (code = fi_cq_open(device->domain, &cq, &device->cq, NULL)) ||
        (code = fi_control(&device->eq->fid, FI_GETWAIT, eq_fd)) ||
        (code = fi_control(&device->cq->fid, FI_GETWAIT, cq_fd))) {
        isorb_close_device(device);
        return code;
    }
    *opened = device;
    return 0;
}

// Whether a wait on both descriptors would miss nothing.
int isorb_may_wait(struct device *device)
{
    struct fid *waits[] = {&device->eq->fid, &device->cq->fid};
    return fi_trywait(device->fabric, waits, 2) == 0;
}

int isorb_listen(struct device *device, struct fi_info *info, struct fid_pep **listening, char *address, size_t room)
{
    struct fid_pep *pep = NULL;
    struct sockaddr_storage name;
    size_t length = sizeof name;
    char host[256], port[32];
    int code = fi_passive_ep(device->fabric, info, &pep, NULL);
    if (code)
        return code;
    if ((code = fi_pep_bind(pep, &device->eq->fid, 0)) || (code = fi_listen(pep)) ||
        (code = fi_getname(&pep->fid, &name, &length)))
        goto failed;
    code = -FI_EADDRNOTAVAIL;
    if (getnameinfo((struct sockaddr *)&name, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        goto failed;
    snprintf(address, room, "%s", port);
    *listening = pep;
    return 0;
failed:
    fi_close(&pep->fid);
    return code;
}

int isorb_reject(struct fid_pep *pep, struct fi_info *request) { return fi_reject(pep, request->handle, NULL, 0); }

int isorb_open_endpoint(struct device *device, struct fi_info *info, struct fid_ep **opened)
{
    struct fid_ep *ep = NULL;
    int code = fi_endpoint(device->domain, info, &ep, NULL);
    if (code)
        return code;
    if ((code = fi_ep_bind(ep, &device->eq->fid, 0)) ||
        (code = fi_ep_bind(ep, &device->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION)) ||
        (code = fi_ep_bind(ep, &device->cq->fid, FI_RECV)) || (code = fi_enable(ep))) {
        fi_close(&ep->fid);
        return code;
    }
    *opened = ep;
    return 0;
}

int isorb_connect(struct fid_ep *ep, struct fi_info *info, const void *hello, size_t length)
{
    return fi_connect(ep, info->dest_addr, hello, length);
}

int isorb_accept(struct fid_ep *ep, const void *hello, size_t length) { return fi_accept(ep, hello, length); }
int isorb_close(struct fid *any) { return fi_close(any); }

int isorb_register(struct device *device, const void *memory, size_t length, int remote, uint64_t wanted,
                   struct fid_mr **registered, uint64_t *key, uint64_t *address)
{
    uint64_t access = remote ? FI_REMOTE_WRITE : FI_SEND | FI_RECV | FI_WRITE;
    int code = fi_mr_reg(device->domain, memory, length, access, 0, wanted, 0, registered, NULL);
    if (code)
        return code;
    *key = fi_mr_key(*registered);
    *address = device->virtual_addresses ? (uint64_t)(uintptr_t)memory : 0;
    return 0;
}

ssize_t isorb_write(struct fid_ep *ep, const void *from, size_t length, struct fid_mr *local, uint64_t address,
                    uint64_t key, uintptr_t context)
{
    return fi_write(ep, from, length, fi_mr_desc(local), 0, address, key, (void *)context);
}

ssize_t isorb_send(struct fid_ep *ep, const void *message, size_t length)
{
    return fi_inject(ep, message, length, 0);
}

ssize_t isorb_post_receive(struct fid_ep *ep, void *into, size_t length, struct fid_mr *local, uintptr_t context)
{
    return fi_recv(ep, into, length, fi_mr_desc(local), 0, (void *)context);
}

// The next completion: 1, with its context, its length, and an error number where it failed; else
// 0.
int isorb_completion(struct device *device, uintptr_t *context, size_t *length, int *failure)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_read(device->cq, &entry, 1);
    if (got == 1) {
        *context = (uintptr_t)entry.op_context;
        *length = entry.len;
        *failure = 0;
        return 1;
    }
    if (got != -FI_EAVAIL || fi_cq_readerr(device->cq, &error, 0) != 1)
        return got == -FI_EAGAIN || got == -FI_EAVAIL ? 0 : (int)got;
    *context = (uintptr_t)error.op_context;
    *length = 0;
    *failure = error.err ? error.err : FI_EIO;
    return 1;
}

enum event { NOTHING = 0, REQUEST = 1, CONNECTED = 2, END = 3, FAILURE = 4 };

// The next event, with the endpoint it is about, and what the peer said with it (at most *length
// octets).
int isorb_event(struct device *device, void **about, struct fi_info **request, uint8_t *said, size_t *length,
                int *failure)
{
    uint64_t aligned[64];
    struct fi_eq_cm_entry *entry = (struct fi_eq_cm_entry *)aligned;
    struct fi_eq_err_entry error = {0};
    uint32_t kind;
    ssize_t got = fi_eq_read(device->eq, &kind, entry, sizeof aligned, 0);
    size_t room = *length;
    *length = 0;
    if (got == -FI_EAVAIL) {
        if (fi_eq_readerr(device->eq, &error, 0) < 0)
            return NOTHING;
        *about = error.fid;
        *failure = error.err ? error.err : FI_EIO;
        return FAILURE;
    }
    if (got < 0)
        return got == -FI_EAGAIN ? NOTHING : (int)got;
    *about = entry->fid;
    if ((size_t)got > sizeof *entry) {
        size_t more = (size_t)got - sizeof *entry;
        *length = more < room ? more : room;
        memcpy(said, entry->data, *length);
    }
    switch (kind) {
    case FI_CONNREQ:
        *request = entry->info;
        return REQUEST;
    case FI_CONNECTED:
        return CONNECTED;
    case FI_SHUTDOWN:
        return END;
    default:
        *failure = FI_EOTHER;
        return FAILURE;
    }
}
